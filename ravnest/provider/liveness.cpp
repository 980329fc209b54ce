#include "ravnest/provider/liveness.h"

#include <algorithm>
#include <utility>

namespace ravnest::provider {

bool Liveness::is_alive(bool is_waiting, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t ticks = ticks_.load();
  if (is_waiting || std::exchange(seen_, ticks) != ticks) {
    since_ = now;
    return true;
  }
  // What it has taken: this piece of work until its last tick, or the longest one before.
  const Clock::duration taken = std::max(since_ - begun_.load(), longest_.load());
  return now - since_ <= std::max(patience_, kTimesLonger * taken);
}

}  // namespace ravnest::provider
