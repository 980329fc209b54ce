#include "ravnest/relay/reach.h"

#include <charconv>

#include "ravnest/base/error.h"
#include "ravnest/relay/socket.h"
#include "ravnest/transport/grpc/accept_loop.h"
#include "ravnest/trust/digest.h"
#include "ravnest/trust/random.h"

namespace ravnest::relay {

Nonce draw_nonce() {
  Nonce nonce{};
  trust::fill_random(nonce);
  return nonce;
}

std::string to_digits(const Nonce& nonce) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte each : nonce) {
    text += kDigits[std::to_integer<unsigned>(each) >> 4];
    text += kDigits[std::to_integer<unsigned>(each) & 15];
  }
  return text;
}

Nonce read_nonce(const std::string& digits) {
  Nonce nonce{};
  if (digits.size() != 2 * nonce.size()) {
    throw_invalid("Expected a nonce of ", 2 * nonce.size(), " digits, got another.");
  }
  for (std::size_t i = 0; i < nonce.size(); ++i) {
    unsigned value = 0;
    const char* begin = digits.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, value, 16);
    if (error != std::errc() || end != begin + 2) {
      throw_invalid("Expected a nonce of hexadecimal digits, got another.");
    }
    nonce[i] = static_cast<std::byte>(value);
  }
  return nonce;
}

class Echo::Loop {
 public:
  Loop(const std::string& address, const Nonce& nonce)
      : accept_(address, transport::AcceptLimits()) {
    // So few bytes always fit into a new connection: nobody is waited for.
    accept_.start([nonce](int descriptor) { Socket(descriptor).send(nonce); });
  }

  const std::string& address() const { return accept_.address(); }

 private:
  transport::AcceptLoop accept_;
};

Echo::Echo(const std::string& address, const Nonce& nonce)
    : loop_(std::make_unique<Loop>(address, nonce)) {}

Echo::~Echo() = default;

const std::string& Echo::address() const { return loop_->address(); }

bool answers(const std::string& address, const Nonce& nonce, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  try {
    const std::unique_ptr<Socket> socket = connect_to(address, deadline);
    Nonce heard{};
    std::size_t size = 0;
    while (socket && size < heard.size()) {
      const std::size_t more = socket->receive(std::span(heard).subspan(size), deadline);
      if (more == 0) {
        return false;
      }
      size += more;
    }
    return socket && trust::is_equal(heard, nonce);
  } catch (const Error&) {
    return false;  // the name is not known
  }
}

}  // namespace ravnest::relay
