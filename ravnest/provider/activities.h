#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>

namespace ravnest::provider {

// What a thread does with its time. The thread says what it begins; any thread may ask.
class Activities {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::uint8_t { kComputing, kWaiting, kSending };
  struct Spent {
    std::chrono::nanoseconds computing{0};
    std::chrono::nanoseconds waiting{0};
    std::chrono::nanoseconds sending{0};

    std::chrono::nanoseconds total() const { return computing + waiting + sending; }
  };

  // Returns what was done until now.
  Kind begin(Kind kind) {
    const std::lock_guard lock(mutex_);
    add_up();
    return std::exchange(kind_, kind);
  }

  Kind kind() const {
    const std::lock_guard lock(mutex_);
    return kind_;
  }

  Spent spent() const {
    const std::lock_guard lock(mutex_);
    add_up();
    return {.computing = spent_[0], .waiting = spent_[1], .sending = spent_[2]};
  }

 private:
  void add_up() const {
    const auto now = Clock::now();
    spent_.at(static_cast<std::size_t>(kind_)) += now - std::exchange(since_, now);
  }

  mutable std::mutex mutex_;  // guards what follows
  Kind kind_ = Kind::kWaiting;
  mutable Clock::time_point since_ = Clock::now();
  mutable std::array<std::chrono::nanoseconds, 3> spent_{};
};

// Does something else as long as this lives.
class Doing {
 public:
  Doing(Activities& activities, Activities::Kind kind)
      : activities_(activities), before_(activities.begin(kind)) {}
  ~Doing() { activities_.begin(before_); }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  Activities& activities_;
  const Activities::Kind before_;
};

}  // namespace ravnest::provider
