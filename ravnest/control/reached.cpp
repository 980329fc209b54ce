#include "ravnest/control/reached.h"

#include <netdb.h>
#include <sys/socket.h>

#include <fstream>
#include <random>

#include "ravnest/base/address.h"
#include "ravnest/base/error.h"

namespace ravnest::control {

namespace {

constexpr int kFirstPort = 16384;
constexpr int kTries = 32;

// The first of the ports that the system takes for outgoing connections.
int first_outgoing_port() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0;
  return file >> first ? first : 0;
}

std::unique_ptr<const relay::Echo> open_echo(int port, const relay::Nonce& nonce) {
  const auto open = [&](int at) {
    return std::make_unique<const relay::Echo>(concat(every_host(), ":", at), nonce);
  };
  const int end = first_outgoing_port();
  if (port != 0 || end <= kFirstPort) {
    return open(port);
  }
  std::random_device random;
  std::uniform_int_distribution<int> draw(kFirstPort, end - 1);
  for (int i = 0; i < kTries; ++i) {
    try {
      return open(draw(random));
    } catch (const Error&) {  // taken
    }
  }
  return open(0);
}

// Empty where the name has none of this family.
std::string in_numbers(const std::string& host, int family) {
  const addrinfo hints{.ai_family = family, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    return "";
  }
  char text[NI_MAXHOST] = "";
  const int error = ::getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0,
                                  NI_NUMERICHOST);
  ::freeaddrinfo(found);
  return error != 0 ? "" : family == AF_INET ? text : concat("[", text, "]");
}

// A stage is closed in, and asks nobody for names.
std::string in_numbers(const std::string& host) {
  if (host.starts_with('[')) {
    return host;
  }
  for (const int family : {AF_INET, AF_INET6}) {
    if (std::string numbers = in_numbers(host, family); !numbers.empty()) {
      return numbers;
    }
  }
  return host;
}

bool is_loopback(const Address& address) {
  return address.host.rfind("127.", 0) == 0 || address.host == "localhost" ||
         address.host == "[::1]";
}

}  // namespace

std::string seen_from(const std::string& server, const std::string& address) {
  if (address.empty() || is_loopback(parse_address(server)) ||
      !is_loopback(parse_address(address))) {
    return address;
  }
  return concat(in_numbers(parse_address(server).host), ":", parse_address(address).port);
}

ReachTest::ReachTest(int port)
    : nonce_(relay::draw_nonce()),
      echo_(open_echo(port, nonce_)),
      port_(parse_address(echo_->address()).port) {}

coordinator::Reach ReachTest::reach(const std::string& host) const {
  return {.host = host, .port = port_, .nonce = relay::to_digits(nonce_)};
}

}  // namespace ravnest::control
