#include "ravnest/transport/grpc/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "ravnest/base/error.h"

namespace ravnest::transport {

namespace {

template <typename Kind>
Kind as(const SocketAddress& address) {
  Kind kind;
  std::memcpy(&kind, &address.storage, sizeof(kind));
  return kind;
}

std::string bytes_of(const void* data, std::size_t size) {
  return {static_cast<const char*>(data), size};
}

SocketAddress copy_of(const sockaddr* address, socklen_t size) {
  SocketAddress copy{.size = size};
  std::memcpy(&copy.storage, address, size);
  return copy;
}

std::vector<std::string> interface_hosts() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    return {};
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, &::freeifaddrs);
  std::vector<std::string> hosts;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const int family = entry->ifa_addr == nullptr ? AF_UNSPEC : entry->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) {
      hosts.push_back(
          copy_of(entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6))
              .host());
    }
  }
  return hosts;
}

// 0, or a code of getaddrinfo.
int look_up(const HostPort& address, int flags, std::vector<SocketAddress>& found) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV | flags;
  addrinfo* first = nullptr;
  const int problem = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &first);
  if (problem != 0) {
    return problem;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(first, &::freeaddrinfo);
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    found.push_back(copy_of(entry->ai_addr, entry->ai_addrlen));
  }
  return 0;
}

}  // namespace

std::uint16_t SocketAddress::port() const {
  return ntohs(storage.ss_family == AF_INET ? as<sockaddr_in>(*this).sin_port
                                            : as<sockaddr_in6>(*this).sin6_port);
}

std::string SocketAddress::host() const {
  if (storage.ss_family == AF_INET) {
    const auto address = as<sockaddr_in>(*this);
    return bytes_of(&address.sin_addr, sizeof(address.sin_addr));
  }
  const auto address = as<sockaddr_in6>(*this);
  if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
    return bytes_of(&address.sin6_addr.s6_addr[12], 4);
  }
  return bytes_of(&address.sin6_addr, sizeof(address.sin6_addr));
}

HostPort split_address(const std::string& address) {
  const auto colon = address.rfind(':');
  HostPort parts;
  if (colon != std::string::npos) {
    parts = {.host = address.substr(0, colon), .port = address.substr(colon + 1)};
  }
  if (parts.host.size() > 2 && parts.host.front() == '[' && parts.host.back() == ']') {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  } else if (parts.host.find(':') != std::string::npos) {
    parts = {};
  }
  const bool is_port = !parts.port.empty() && parts.port.size() <= 5 &&
                       std::ranges::all_of(parts.port, [](char c) { return c >= '0' && c <= '9'; });
  if (parts.host.empty() || !is_port || std::stoi(parts.port) > 65535) {
    throw_invalid("[transport] expected an address like 127.0.0.1:8081 or [::1]:8081, got '",
                  address, "'.");
  }
  return parts;
}

std::vector<SocketAddress> resolve(const HostPort& address) {
  std::vector<SocketAddress> found;
  if (const int problem = look_up(address, 0, found); problem != 0) {
    throw Error(ErrorKind::kIo, concat("[transport] the host '", address.host,
                                       "' is not known: ", ::gai_strerror(problem), "."));
  }
  return found;
}

std::vector<SocketAddress> read_numbers(const HostPort& address) {
  std::vector<SocketAddress> found;
  look_up(address, AI_NUMERICHOST, found);
  return found;
}

bool is_this_machine(const std::string& host_bytes) {
  const bool is_any = host_bytes.find_first_not_of('\0') == std::string::npos;
  const bool is_loopback =
      host_bytes.size() == 4 ? host_bytes[0] == 127 : host_bytes == std::string(15, '\0') + '\1';
  return is_any || is_loopback || std::ranges::count(interface_hosts(), host_bytes) > 0;
}

}  // namespace ravnest::transport
