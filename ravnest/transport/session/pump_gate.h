#pragma once

#include <mutex>
#include <utility>

namespace ravnest::transport {

// Lets one thread at a time pull frames from an owner, and forgets no wake: a thread that finds
// the gate taken leaves a mark, and whoever is inside pulls again before it leaves.
class PumpGate {
 public:
  // True: the caller is inside and pulls until leave() lets it go.
  bool enter() {
    const std::lock_guard lock(mutex_);
    again_ = is_taken_;
    return !std::exchange(is_taken_, true);
  }

  // False: pull once more.
  bool leave() {
    const std::lock_guard lock(mutex_);
    is_taken_ = std::exchange(again_, false);
    return !is_taken_;
  }

 private:
  std::mutex mutex_;
  bool is_taken_ = false;
  bool again_ = false;
};

}  // namespace ravnest::transport
