#pragma once

#include <chrono>

namespace ravnest::front {

// Ctrl-C, SIGTERM and SIGUSR1, for a program that ends well. Made before any thread is: they then
// come here alone.
class Signals {
 public:
  Signals();
  // The one that came; 0: none.
  int wait(std::chrono::milliseconds timeout);
};

}  // namespace ravnest::front
