#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "tests/transport/world.h"

namespace ravnest::transport {

// A plain TCP connection in the hands of a test.
class TcpClient {
 public:
  explicit TcpClient(const std::string& address) {
    descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    static_cast<void>(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)));
  }
  ~TcpClient() {
    if (descriptor_ >= 0) {
      // Ends at once, without the waiting that TCP has after a polite end.
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
      ::close(descriptor_);
    }
  }
  TcpClient(TcpClient&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  TcpClient& operator=(TcpClient&&) = delete;

  void write(const std::string& bytes) const {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t size =
          ::send(descriptor_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (size <= 0) {
        return;  // refused already
      }
      done += static_cast<std::size_t>(size);
    }
  }

  // Waits for bytes; false where the other side ends it first, or nothing comes.
  bool wait_for_answer() const { return read_some(deadline_in(kPatience)).value_or(0) > 0; }

  // Reads until the other side ends it. False where it does not.
  bool wait_for_end() const {
    const TimePoint deadline = deadline_in(kPatience);
    std::optional<ssize_t> size;
    do {
      size = read_some(deadline);
    } while (size.value_or(0) > 0);
    return size.has_value();
  }

 private:
  // What recv says; nothing at the deadline.
  std::optional<ssize_t> read_some(TimePoint deadline) const {
    const auto left =
        std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd wanted{.fd = descriptor_, .events = POLLIN};
    char part[4096];
    if (left.count() <= 0 || ::poll(&wanted, 1, static_cast<int>(left.count())) <= 0) {
      return std::nullopt;
    }
    return ::recv(descriptor_, part, sizeof(part), 0);
  }

  int descriptor_ = -1;
};

// HTTP/2, as much of it as a gRPC call takes.

inline std::string h2_frame(char type, char flags, std::uint32_t stream, const std::string& body) {
  std::string out;
  out += static_cast<char>(body.size() >> 16);
  out += static_cast<char>(body.size() >> 8);
  out += static_cast<char>(body.size());
  out += type;
  out += flags;
  for (int shift = 24; shift >= 0; shift -= 8) {
    out += static_cast<char>(stream >> shift);
  }
  return out + body;
}

inline std::string h2_preface() {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0, "");
}

inline std::string h2_call(const std::string& path) {
  const auto literal = [](const std::string& name, const std::string& value) {
    std::string out(1, '\0');
    out += static_cast<char>(name.size());
    out += name;
    out += static_cast<char>(value.size());
    return out + value;
  };
  return h2_frame(1, 4, 1,
                  literal(":method", "POST") + literal(":scheme", "http") + literal(":path", path) +
                      literal(":authority", "test") + literal("content-type", "application/grpc") +
                      literal("te", "trailers"));
}

// A gRPC message of these bytes, or of their beginning: the length is a claim.
inline std::string h2_message(const std::string& bytes, std::uint32_t claim) {
  std::string out(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) {
    out += static_cast<char>(claim >> shift);
  }
  return h2_frame(0, 0, 1, out + bytes);
}

inline std::string h2_message(const std::string& bytes) {
  return h2_message(bytes, static_cast<std::uint32_t>(bytes.size()));
}

}  // namespace ravnest::transport
