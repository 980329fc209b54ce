#include "ravnest/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "ravnest/base/error.h"

namespace ravnest {

namespace {

constexpr std::size_t kMaxLength = 255;  // of a file's name

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool is_name(std::string_view host) {
  return !host.empty() && host[0] != '.' && host[0] != '-' &&
         host.find("..") == std::string_view::npos && std::ranges::all_of(host, [](char c) {
           return is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
         });
}

bool is_bracketed_ipv6(std::string_view host) {
  in6_addr parsed{};
  return host.size() > 2 && host.front() == '[' && host.back() == ']' &&
         ::inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &parsed) == 1;
}

// 0 unless it is the number of a port as one writes it.
std::uint16_t port_of(std::string_view digits) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && digits[0] != '0' ? port : std::uint16_t{0};
}

}  // namespace

Address parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view host = text.substr(0, std::min(colon, text.size()));
  const std::uint16_t port =
      colon == std::string_view::npos ? std::uint16_t{0} : port_of(text.substr(colon + 1));
  // An embedded zero would hide the rest from inet_pton.
  const bool has_zero = host.find('\0') != std::string_view::npos;
  if (port == 0 || text.size() > kMaxLength || has_zero ||
      (!is_name(host) && !is_bracketed_ipv6(host))) {
    throw_invalid(
        "[address] expected 'host:port' (letters, digits, '.', '_', '-' or "
        "IPv6 in brackets; port 1 to 65535), got '",
        text, "'.");
  }
  return {.host = std::string(host), .port = port};
}

std::string every_host() {
  const int descriptor = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    return "0.0.0.0";
  }
  const sockaddr_in6 any{.sin6_family = AF_INET6};
  int is_alone = 1;  // IPv4 is kept out
  socklen_t size = sizeof is_alone;
  const bool is_both = ::getsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &is_alone, &size) == 0 &&
                       is_alone == 0 &&
                       ::bind(descriptor, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
  ::close(descriptor);
  return is_both ? "[::]" : "0.0.0.0";
}

}  // namespace ravnest
