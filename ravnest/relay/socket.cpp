#include "ravnest/relay/socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "ravnest/transport/grpc/socket_address.h"

namespace ravnest::relay {

namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// False at the deadline.
bool wait_for(int descriptor, short event, TimePoint deadline) {
  pollfd wanted{.fd = descriptor, .events = event};
  int ready = -1;
  do {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    ready = ::poll(&wanted, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// 0, or why it cannot be connected.
int connect_by(int descriptor, const transport::SocketAddress& where, TimePoint deadline) {
  if (::connect(descriptor, where.get(), where.size) == 0) {
    return 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  int error = ETIMEDOUT;
  socklen_t size = sizeof(error);
  if (wait_for(descriptor, POLLOUT, deadline)) {
    ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  return error;
}

}  // namespace

Socket::Socket(int descriptor) : descriptor_(descriptor) {
  ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
  const int on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Socket::~Socket() { ::close(descriptor_); }

bool Socket::send(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  }
  return true;
}

bool Socket::send(std::span<const std::byte> bytes, TimePoint deadline) const {
  while (!bytes.empty()) {
    if (!wait_for(descriptor_, POLLOUT, deadline)) {
      return false;
    }
    const ssize_t sent =
        ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EINTR && errno != EAGAIN) {
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  }
  return true;
}

std::size_t Socket::receive(std::span<std::byte> bytes) const {
  ssize_t size = -1;
  do {
    size = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
  } while (size < 0 && errno == EINTR);
  return static_cast<std::size_t>(std::max<ssize_t>(size, 0));
}

std::size_t Socket::receive(std::span<std::byte> bytes, TimePoint deadline) const {
  return wait_for(descriptor_, POLLIN, deadline) ? receive(bytes) : 0;
}

void Socket::shut_down() const { ::shutdown(descriptor_, SHUT_RDWR); }

std::unique_ptr<Socket> connect_to(const std::string& address, TimePoint deadline) {
  for (const auto& where : transport::resolve(transport::split_address(address))) {
    const int descriptor =
        ::socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) {
      continue;
    }
    if (connect_by(descriptor, where, deadline) == 0) {
      return std::make_unique<Socket>(descriptor);
    }
    ::close(descriptor);
  }
  return nullptr;
}

}  // namespace ravnest::relay
