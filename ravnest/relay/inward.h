#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ravnest/relay/pipe.h"

namespace ravnest::relay {

class Connections;

// The way in for pipes from outside: each is carried on by a connection to a port of this machine.
// Any thread.
class Inward {
 public:
  explicit Inward(std::size_t connections = 256);
  // Ends all connections.
  ~Inward();
  Inward(const Inward&) = delete;
  Inward& operator=(const Inward&) = delete;

  // Takes a pipe, and connects it to 127.0.0.1:port. Where nobody listens there, or there are too
  // many, the pipe is opened and closed.
  void accept(std::uint16_t port, const TakePipe& take);

 private:
  const std::unique_ptr<Connections> connections_;
};

}  // namespace ravnest::relay
