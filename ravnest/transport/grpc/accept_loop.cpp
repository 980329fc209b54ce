#include "ravnest/transport/grpc/accept_loop.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/transport/grpc/local_socket.h"
#include "ravnest/transport/grpc/own_sockets.h"

namespace ravnest::transport {

namespace {

constexpr int kBacklog = 512;
// Without a spare descriptor a connection that waits can neither be taken nor shed.
constexpr int kPauseMs = 50;

void close_if_open(int& descriptor) {
  if (descriptor >= 0) {
    ::close(std::exchange(descriptor, -1));
  }
}

int open_spare() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

// A listening socket, or -1 with errno.
int try_listen(const SocketAddress& where) {
  int descriptor = ::socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) {
    return -1;
  }
  // A port whose last connections still fade away may be had again; one that is listened on not.
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(descriptor, where.get(), where.size) != 0 || ::listen(descriptor, kBacklog) != 0) {
    const int error = errno;
    close_if_open(descriptor);
    errno = error;
  }
  return descriptor;
}

[[noreturn]] void throw_cannot_listen(const std::string& address, int error) {
  if (error == EADDRINUSE) {
    throw Error(ErrorKind::kIo,
                concat("[transport] port ", split_address(address).port, " is taken (", address,
                       "); end the program that listens there, or choose another port."));
  }
  throw Error(ErrorKind::kIo,
              concat("[transport] cannot listen at ", address, ": ", std::strerror(error), "."));
}

SocketAddress bound_address(int descriptor) {
  SocketAddress bound{.size = sizeof(sockaddr_storage)};
  ::getsockname(descriptor, bound.get(), &bound.size);
  return bound;
}

// Hosts of one IPv6 network count as one: it is as easy to have many addresses there as one.
std::string counted(const std::string& host) {
  return host.size() == 16 ? host.substr(0, 8) : host;
}

// Not gone again while it waited.
bool is_connected(int descriptor) {
  SocketAddress remote{.size = sizeof(sockaddr_storage)};
  return ::getpeername(descriptor, remote.get(), &remote.size) == 0;
}

void set_no_delay(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

AcceptLoop::AcceptLoop(const std::string& address, const AcceptLimits& limits) : limits_(limits) {
  const HostPort parts = split_address(address);
  int error = 0;
  for (const SocketAddress& where : resolve(parts)) {
    listener_ = try_listen(where);
    if (listener_ >= 0) {
      break;
    }
    error = errno;
  }
  if (listener_ < 0) {
    throw_cannot_listen(address, error);
  }
  const SocketAddress bound = bound_address(listener_);
  address_ = concat(address.substr(0, address.rfind(':')), ":", bound.port());
  keep_own(listener_);
  if (limits.has_local_socket) {
    local_listener_ = listen_locally(bound);
    keep_own(local_listener_);
  }
  stop_event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  spare_ = open_spare();
  if (stop_event_ < 0 || spare_ < 0) {
    error = errno;
    stop();
    throw_cannot_listen(address, error);
  }
}

AcceptLoop::~AcceptLoop() { stop(); }

void AcceptLoop::start(std::function<void(int)> take) {
  take_ = std::move(take);
  thread_ = std::jthread([this] { run(); });
}

void AcceptLoop::stop() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    static_cast<void>(::write(stop_event_, &one, sizeof(one)));
    thread_.join();
  }
  for (int* listener : {&listener_, &local_listener_}) {
    if (*listener >= 0) {
      // A process that was forked off a moment ago has it too, until it executes its own program.
      ::shutdown(*listener, SHUT_RDWR);
      close_own(*listener);
    }
  }
  close_if_open(stop_event_);
  close_if_open(spare_);
}

void AcceptLoop::run() {
  std::array<pollfd, 3> wanted{pollfd{.fd = stop_event_, .events = POLLIN},
                               pollfd{.fd = listener_, .events = POLLIN},
                               pollfd{.fd = local_listener_, .events = POLLIN}};
  while (true) {
    ::poll(wanted.data(), wanted.size(), -1);
    if (wanted[0].revents != 0) {
      return;
    }
    while (accept_one(listener_)) {
    }
    while (local_listener_ >= 0 && accept_one(local_listener_)) {
    }
    if (spare_ < 0) {
      spare_ = open_spare();
      ::poll(wanted.data(), 1, spare_ < 0 ? kPauseMs : 0);
    }
  }
}

bool AcceptLoop::accept_one(int listener) {
  SocketAddress remote{.size = sizeof(sockaddr_storage)};
  int descriptor = ::accept4(listener, remote.get(), &remote.size, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor < 0) {
    if (errno == EMFILE || errno == ENFILE) {
      return shed_one(listener);
    }
    // What is left are connections that went away while they waited.
    return errno == ECONNABORTED || errno == EINTR;
  }
  const std::string host = listener == local_listener_ ? std::string() : remote.host();
  if (!is_connected(descriptor) || !may_stay(descriptor, host)) {
    ::close(descriptor);
    return true;
  }
  struct stat status{};
  ::fstat(descriptor, &status);
  held_.push_back({.descriptor = descriptor, .inode = status.st_ino, .host = counted(host)});
  set_no_delay(descriptor);
  keep_own(descriptor);
  take_(descriptor);
  return true;
}

bool AcceptLoop::shed_one(int listener) {
  close_if_open(spare_);
  int descriptor = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  const bool is_shed = descriptor >= 0;
  close_if_open(descriptor);
  spare_ = open_spare();
  return is_shed && spare_ >= 0;
}

// Who came by the local socket has no host.
bool AcceptLoop::may_stay(int descriptor, const std::string& host) {
  if (host.empty() ? !is_of_user(descriptor, ::geteuid())
                   : limits_.this_machine_only && !is_this_machine(host)) {
    return false;
  }
  forget_closed();
  const auto of_host = std::ranges::count(held_, counted(host), &Held::host);
  return held_.size() < limits_.connections &&
         static_cast<std::size_t>(of_host) < limits_.connections_per_host;
}

void AcceptLoop::forget_closed() {
  std::erase_if(held_, [](const Held& held) {
    struct stat status{};
    return ::fstat(held.descriptor, &status) != 0 || status.st_ino != held.inode;
  });
}

}  // namespace ravnest::transport
