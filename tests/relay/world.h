#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <list>
#include <string>

#include "ravnest/relay/inward.h"
#include "ravnest/relay/outward.h"
#include "ravnest/relay/socket.h"
#include "ravnest/relay/switchboard.h"
#include "ravnest/transport/grpc/accept_loop.h"
#include "tests/relay/wire.h"

namespace ravnest::relay {

// Every wait of a test ends.
inline std::chrono::steady_clock::time_point deadline() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Reads so many bytes; fewer where the other side ends first.
inline std::string read(const Socket& socket, std::size_t nbytes) {
  std::string text(nbytes, '\0');
  std::size_t size = 0;
  while (size < nbytes) {
    const std::size_t more =
        socket.receive(std::as_writable_bytes(std::span(text)).subspan(size), deadline());
    if (more == 0) {
      break;
    }
    size += more;
  }
  return text.substr(0, size);
}

// Whether the other side ends it, without another byte.
inline bool sees_end(const Socket& socket) {
  const auto start = std::chrono::steady_clock::now();
  return read(socket, 1).empty() &&
         std::chrono::steady_clock::now() - start < std::chrono::seconds(25);
}

inline void send_back(const Socket& socket) {
  Bytes piece(1 << 16);
  while (const std::size_t size = socket.receive(piece)) {
    if (!socket.send(std::span(piece).first(size))) {
      return;
    }
  }
}

// A program that listens on this machine, and does the same with every connection.
class Program {
 public:
  explicit Program(std::function<void(const Socket&)> serve = send_back)
      : loop_("127.0.0.1:0", {.connections_per_host = 256}) {
    loop_.start([this, serve = std::move(serve)](int descriptor) {
      auto socket = std::make_shared<Socket>(descriptor);
      sockets_.push_back(socket);
      threads_.emplace_back([serve, socket] {
        serve(*socket);
        socket->shut_down();
      });
    });
  }
  ~Program() {
    loop_.stop();
    for (const auto& weak : sockets_) {
      if (const auto socket = weak.lock()) {
        socket->shut_down();
      }
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::uint16_t port() const {
    const std::string& address = loop_.address();
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }

 private:
  transport::AcceptLoop loop_;
  std::vector<std::weak_ptr<Socket>> sockets_;
  std::vector<std::jthread> threads_;
};

// Member a, the server and member b, whose program is at a port; joined by wires.
class World {
 public:
  explicit World(std::uint16_t port) : port_(port) {}
  ~World() {
    // Whoever carries pipes ends them all; what is left of them goes with the wires.
    outward.reset();
    inward.reset();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::unique_ptr<Socket> connect() {
    auto socket = connect_to(outward->address_for("b"), deadline());
    EXPECT_NE(socket, nullptr);
    return socket;
  }

  Switchboard board{[](const std::string&, const std::string&) { return true; },
                    {.calls_per_caller = 128}};
  std::unique_ptr<Inward> inward = std::make_unique<Inward>();
  std::unique_ptr<Outward> outward = std::make_unique<Outward>(
      [this](const std::string& member, PipeEvents events) {
        return call(member, std::move(events));
      },
      128);

 private:
  std::unique_ptr<Pipe> call(const std::string& member, PipeEvents events) {
    Wire wire = make_wire();
    const std::shared_ptr<WireEnd> at_server = keep(std::move(wire.far_end));
    const auto placed = board.call("a", member, at_server, std::chrono::steady_clock::now());
    at_server->start(placed.events);
    wire.near_end->start(std::move(events));
    inward->accept(port_, [this, placed, member](PipeEvents of_called) {
      return answer(placed.id, member, std::move(of_called));
    });
    return std::move(wire.near_end);
  }

  std::unique_ptr<Pipe> answer(std::uint64_t id, const std::string& member, PipeEvents events) {
    Wire wire = make_wire();
    const std::shared_ptr<WireEnd> at_server = keep(std::move(wire.far_end));
    at_server->start(board.answer(id, member, at_server));
    wire.near_end->start(std::move(events));
    return std::move(wire.near_end);
  }

  std::shared_ptr<WireEnd> keep(std::shared_ptr<WireEnd> end) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(end);
    return end;
  }

  const std::uint16_t port_;
  std::mutex mutex_;
  std::list<std::shared_ptr<WireEnd>> kept_;
};

}  // namespace ravnest::relay
