#pragma once

#include <atomic>

namespace ravnest::transport {

// gRPC calls a stream on one thread after another, and orders what they do by means that a race
// detector does not see, since gRPC is not compiled for it. This says the same where it can be
// seen: pass before an operation is started, take when its completion is called.
class Baton {
 public:
  void pass() { passed_.fetch_add(1, std::memory_order_acq_rel); }
  void take() const { static_cast<void>(passed_.load(std::memory_order_acquire)); }

 private:
  std::atomic<unsigned> passed_ = 0;
};

}  // namespace ravnest::transport
