#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/transport/grpc/socket_address.h"

namespace ravnest::transport {

struct AcceptLimits {
  std::size_t connections = 256;
  std::size_t connections_per_host = 64;  // for IPv6 per /64 network
  bool this_machine_only = false;
  bool has_local_socket = false;  // see local_socket.h; of this process's user
};

// Listens, accepts and hands connections on, on a thread of its own. It stands in front of gRPC,
// whose own listener stops accepting for good when descriptors run out. Connections over a limit
// are closed at once; so are those for which no descriptor is left, by way of a spare one.
class AcceptLoop {
 public:
  // Binds and listens. Throws Error(kIo) that names the port when it is taken.
  AcceptLoop(const std::string& address, const AcceptLimits& limits);
  ~AcceptLoop();
  AcceptLoop(const AcceptLoop&) = delete;
  AcceptLoop& operator=(const AcceptLoop&) = delete;

  // Who takes a connection owns its descriptor.
  void start(std::function<void(int descriptor)> take);
  void stop();

  // As given, with the real port.
  const std::string& address() const { return address_; }

 private:
  // A connection that was handed on. Its new owner closes it without telling; the descriptor then
  // is free, or names something else.
  struct Held {
    int descriptor = -1;
    ino_t inode = 0;
    std::string host;
  };

  void run();
  // False when no more wait.
  bool accept_one(int listener);
  bool shed_one(int listener);
  bool may_stay(int descriptor, const std::string& host);
  void forget_closed();

  const AcceptLimits limits_;
  std::string address_;
  int listener_ = -1;
  int local_listener_ = -1;
  int stop_event_ = -1;
  std::function<void(int)> take_;

  // Owned by the thread.
  int spare_ = -1;
  std::vector<Held> held_;

  std::jthread thread_;
};

}  // namespace ravnest::transport
