#include "ravnest/dashboard/connection.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ravnest::dashboard {

namespace {

// A head of 16 KiB (cookies of other programs at this host among it) and a body of 64 KiB.
constexpr std::size_t kMostBytes = 80 * 1024;
constexpr std::chrono::milliseconds kFinishTime{1000};

using Clock = std::chrono::steady_clock;

// Whether the descriptor is ready, or broken, before the deadline.
bool wait_for(int descriptor, short events, Clock::time_point deadline) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wanted{.fd = descriptor, .events = events};
    const int ready = ::poll(&wanted, 1, static_cast<int>(std::max<long>(left.count(), 0)));
    if (ready != 0 && !(ready < 0 && errno == EINTR)) {
      return ready > 0;
    }
    if (ready == 0 && Clock::now() >= deadline) {
      return false;
    }
  }
}

using NameOf = int (*)(int, sockaddr*, socklen_t*);

void get_ip_and_port(NameOf name_of, int descriptor, std::string& ip, int& port) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (name_of(descriptor, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return;
  }
  if (storage.ss_family == AF_INET) {
    sockaddr_in address{};
    std::memcpy(&address, &storage, sizeof(address));
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    port = ntohs(address.sin_port);
  } else {
    sockaddr_in6 address{};
    std::memcpy(&address, &storage, sizeof(address));
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    port = ntohs(address.sin6_port);
  }
  ip = text.data();
}

}  // namespace

Connection::Connection(int descriptor, const HttpLimits& limits)
    : descriptor_(descriptor), limits_(limits), read_by_(Clock::now() + limits.request) {}

bool Connection::is_readable() const {
  return begin_ < end_ || wait_for(descriptor_, POLLIN, read_by_);
}

bool Connection::is_writable() const {
  return wait_for(descriptor_, POLLOUT, Clock::now() + limits_.write);
}

ssize_t Connection::receive(TimePoint deadline) {
  while (wait_for(descriptor_, POLLIN, deadline)) {
    const ssize_t got = ::recv(descriptor_, buffer_.data(), buffer_.size(), 0);
    if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
      return got;
    }
  }
  return -1;
}

ssize_t Connection::read(char* data, std::size_t size) {
  if (begin_ == end_) {
    const ssize_t received = received_ < kMostBytes ? receive(read_by_) : -1;
    if (received <= 0) {
      return received;
    }
    begin_ = 0;
    end_ = static_cast<std::size_t>(received);
    received_ += end_;
  }
  const std::size_t taken = std::min(size, end_ - begin_);
  std::memcpy(data, buffer_.data() + begin_, taken);
  begin_ += taken;
  return static_cast<ssize_t>(taken);
}

ssize_t Connection::write(const char* data, std::size_t size) {
  const auto deadline = Clock::now() + limits_.write;
  has_written_ = true;
  std::size_t sent = 0;
  while (sent < size) {
    if (!wait_for(descriptor_, POLLOUT, deadline)) {
      return -1;
    }
    const ssize_t step = ::send(descriptor_, data + sent, size - sent, MSG_NOSIGNAL);
    if (step < 0 && errno != EAGAIN && errno != EINTR) {
      return -1;
    }
    sent += static_cast<std::size_t>(std::max<ssize_t>(step, 0));
    if (Clock::now() >= deadline && sent < size) {
      return -1;
    }
  }
  return static_cast<ssize_t>(size);
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  get_ip_and_port(&::getpeername, descriptor_, ip, port);
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  get_ip_and_port(&::getsockname, descriptor_, ip, port);
}

void Connection::finish() {
  if (!has_written_) {
    return;
  }
  ::shutdown(descriptor_, SHUT_WR);
  const auto deadline = Clock::now() + kFinishTime;
  for (ssize_t got = 1; got > 0 && received_ < 2 * kMostBytes;) {
    got = receive(deadline);
    received_ += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
}

}  // namespace ravnest::dashboard
