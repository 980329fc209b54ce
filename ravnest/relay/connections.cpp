#include "ravnest/relay/connections.h"

#include <exception>
#include <system_error>
#include <utility>
#include <vector>

namespace ravnest::relay {

namespace {

constexpr std::size_t kPieceBytes = 256 * 1024;

PipeEvents events_into(const std::shared_ptr<Socket>& socket) {
  return {.on_bytes =
              [socket](std::span<const std::byte> bytes) {
                if (!socket->send(bytes)) {
                  socket->shut_down();
                }
              },
          .on_end = [socket] { socket->shut_down(); }};
}

}  // namespace

Connection::Connection(std::shared_ptr<Socket> socket, TakePipe take)
    : socket_(std::move(socket)), thread_([this, take = std::move(take)] { run(take); }) {}

Connection::~Connection() {
  end();
  thread_.join();
}

void Connection::run(const TakePipe& take) {
  try {
    const std::shared_ptr<Pipe> pipe = take(events_into(socket_));
    if (keep(pipe)) {
      carry(*pipe);
    }
  } catch (const std::exception&) {
    // Nobody is there, and who opens pipes has said why: who connected sees the end.
  }
  end();
  release();
  has_ended_ = true;
}

void Connection::carry(Pipe& pipe) const {
  std::vector<std::byte> piece(kPieceBytes);
  while (const std::size_t size = socket_->receive(piece)) {
    if (!pipe.write(std::span(piece).first(size))) {
      return;
    }
  }
}

bool Connection::keep(const std::shared_ptr<Pipe>& pipe) {
  const std::lock_guard lock(mutex_);
  pipe_ = pipe;
  return !is_ending_;
}

void Connection::end() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
  if (socket_) {
    socket_->shut_down();
  }
  if (pipe_) {
    pipe_->close();
  }
}

void Connection::release() {
  std::shared_ptr<Pipe> pipe;
  std::shared_ptr<Socket> socket;
  const std::lock_guard lock(mutex_);
  pipe.swap(pipe_);
  socket.swap(socket_);
}

bool Connections::add(std::shared_ptr<Socket> socket, TakePipe take) {
  const std::lock_guard lock(mutex_);
  running_.remove_if([](const Connection& connection) { return connection.has_ended(); });
  if (running_.size() >= most_) {
    return false;
  }
  try {
    running_.emplace_back(std::move(socket), std::move(take));
  } catch (const std::system_error&) {
    return false;  // the system has no thread to give
  }
  return true;
}

}  // namespace ravnest::relay
