#pragma once

#include <algorithm>

#include "ravnest/transport/options.h"

namespace ravnest::transport {

// The signs of life of one connection, by our own clock: when to send one, and since when none
// came. Plain data: its session holds the lock.
class Pulse {
 public:
  Pulse(const Timeouts& timeouts, TimePoint now)
      : timeouts_(&timeouts), heard_(now), sent_(now), next_(after(now, timeouts.heartbeat)) {}

  void on_heard(TimePoint now) { heard_ = now; }
  void on_sent(TimePoint now) { sent_ = now; }
  bool is_silent(TimePoint now) const { return now - heard_ >= timeouts_->lost_after; }

  // Whether a heartbeat is due: nothing was sent for a while.
  bool beat(TimePoint now) {
    if (now < next_) {
      return false;
    }
    const bool is_due = now - sent_ >= timeouts_->heartbeat;
    next_ = after(is_due ? now : sent_, timeouts_->heartbeat);
    return is_due;
  }

  TimePoint next_tick() const { return std::min(next_, after(heard_, timeouts_->lost_after)); }

 private:
  const Timeouts* timeouts_;
  TimePoint heard_;
  TimePoint sent_;
  TimePoint next_;
};

}  // namespace ravnest::transport
