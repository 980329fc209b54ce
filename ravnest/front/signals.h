#pragma once

#include <chrono>
#include <csignal>

namespace ravnest::front {

// Ctrl-C, SIGTERM, SIGUSR1, and SIGHUP of a terminal that is closed, for a program that ends well.
// Made before any thread is: they then come here alone.
class Signals {
 public:
  Signals();
  // The one that came.
  int wait();
  // 0: none.
  int wait(std::chrono::milliseconds timeout);

 private:
  sigset_t awaited_{};
};

}  // namespace ravnest::front
