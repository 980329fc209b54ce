#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace ravnest::provider {

// Whether a thread that works through one piece of work after the other gets on. It ticks: at every
// piece, and wherever it can within one. A thread that does not is taken to hang after `patience`,
// and not before it has been silent for many times as long as it was ever seen to take: a slow
// machine is not a dead one.
class Liveness {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Liveness(Clock::duration patience) : patience_(patience) {}

  // On the thread itself.
  void begin(Clock::time_point now) {
    begun_ = now;
    tick();
  }
  void end(Clock::time_point now) {
    if (now - begun_.load() > longest_.load()) {
      longest_ = now - begun_.load();
    }
  }
  void tick() { ticks_.fetch_add(1, std::memory_order_relaxed); }
  std::atomic<std::uint64_t>& ticks() { return ticks_; }

  // Asked again and again, by any thread. Who waits for others is alive.
  bool is_alive(bool is_waiting, Clock::time_point now);

 private:
  static constexpr int kTimesLonger = 10;

  const Clock::duration patience_;
  std::atomic<std::uint64_t> ticks_ = 0;
  std::atomic<Clock::time_point> begun_{Clock::time_point()};
  std::atomic<Clock::duration> longest_{Clock::duration(0)};

  std::mutex mutex_;  // guards what follows
  std::uint64_t seen_ = 0;
  Clock::time_point since_{};  // when a tick was seen last
};

}  // namespace ravnest::provider
