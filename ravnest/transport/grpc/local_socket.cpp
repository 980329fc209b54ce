#include "ravnest/transport/grpc/local_socket.h"

#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/transport/grpc/own_sockets.h"

namespace ravnest::transport {

namespace {

constexpr int kLocalBacklog = 512;

SocketAddress address_of(const std::string& host, std::uint16_t port) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string name(1, '\0');  // no file
  name += "ravnest/";
  for (const char c : host) {
    const auto byte = static_cast<unsigned char>(c);
    name += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  name += concat(":", port);
  sockaddr_un local{.sun_family = AF_UNIX, .sun_path = {}};
  RAVNEST_CHECK(name.size() <= sizeof(local.sun_path));
  std::memcpy(local.sun_path, name.data(), name.size());
  SocketAddress address{.size =
                            static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())};
  std::memcpy(&address.storage, &local, sizeof(local));
  return address;
}

// As with TCP: who listens at all addresses does so at each, at those of IPv6 at those of IPv4 too,
// and all of them as a target are this machine.
std::vector<std::string> hosts_meant_by(const std::string& host) {
  const std::string any(4, '\0');
  const std::string any_v6(16, '\0');
  if (host == any) {
    return {std::string("\x7f\0\0\1", 4), any, any_v6};
  }
  if (host == any_v6) {
    return {std::string(15, '\0') + '\1', any_v6};
  }
  return host.size() == 4 ? std::vector{host, any, any_v6} : std::vector{host, any_v6};
}

// Who connects may not wait, as for the name service.
std::vector<SocketAddress> known_addresses(const HostPort& address) {
  if (address.host != "localhost") {
    return read_numbers(address);
  }
  std::vector<SocketAddress> found;
  for (const char* host : {"127.0.0.1", "::1"}) {
    std::ranges::copy(read_numbers({host, address.port}), std::back_inserter(found));
  }
  return found;
}

// Gives the socket if `prepare` is well with it.
int open_socket(const auto& prepare) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor >= 0 && !prepare(descriptor)) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

int connect_to(const SocketAddress& where) {
  for (const std::string& host : hosts_meant_by(where.host())) {
    const SocketAddress address = address_of(host, where.port());
    const int connected = open_socket([&](int descriptor) {
      return ::connect(descriptor, address.get(), address.size) == 0 &&
             is_of_user(descriptor, ::geteuid());
    });
    if (connected >= 0) {
      return connected;
    }
  }
  return -1;
}

}  // namespace

int listen_locally(const SocketAddress& where) {
  const SocketAddress address = address_of(where.host(), where.port());
  return open_socket([&](int descriptor) {
    return ::bind(descriptor, address.get(), address.size) == 0 &&
           ::listen(descriptor, kLocalBacklog) == 0;
  });
}

int connect_locally(const std::string& address) {
  for (const SocketAddress& where : known_addresses(split_address(address))) {
    if (const int connected = connect_to(where); connected >= 0) {
      keep_own(connected);
      return connected;
    }
  }
  return -1;
}

bool is_local_socket(int descriptor) {
  SocketAddress own{.size = sizeof(sockaddr_storage)};
  return ::getsockname(descriptor, own.get(), &own.size) == 0 && own.storage.ss_family == AF_UNIX;
}

bool is_of_user(int descriptor, uid_t user) {
  ucred other{};
  socklen_t size = sizeof(other);
  return ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == user;
}

}  // namespace ravnest::transport
