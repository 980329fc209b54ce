#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ravnest::transport {

// An address of the socket API.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  std::uint16_t port() const;
  // The host alone, as bytes: 4 of IPv4 (also where mapped into IPv6), 16 of IPv6.
  std::string host() const;
};

struct HostPort {
  std::string host;  // without brackets
  std::string port;
};

// Splits "host:port" or "[IPv6]:port". Throws std::invalid_argument.
HostPort split_address(const std::string& address);

// Where a host and port can be bound or reached. Asks the name service, and may wait for it. Throws
// Error(kIo) when the name is not known.
std::vector<SocketAddress> resolve(const HostPort& address);

// The same of a host that is a number; nothing of a name. At once.
std::vector<SocketAddress> read_numbers(const HostPort& address);

// Whether a host is this machine: 127.0.0.0/8, ::1, the "any" addresses, one of its interfaces.
bool is_this_machine(const std::string& host_bytes);

}  // namespace ravnest::transport
