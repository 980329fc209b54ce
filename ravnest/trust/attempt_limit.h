#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace ravnest::trust {

struct AttemptLimits {
  unsigned burst = 10;                     // failures that a host has free
  std::chrono::milliseconds refill{6000};  // after which it has one more
  std::size_t hosts = 1024;                // remembered at once
};

// Counts the failed attempts of each host, so that guessing is slow and the server has time for
// others. Not locked: its owner does that. Memory is bounded: when too many hosts are remembered,
// those that failed longest ago are forgotten.
class AttemptLimit {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit AttemptLimit(const AttemptLimits& limits) : limits_(limits) {}

  bool may_try(const std::string& host, TimePoint now) const;
  void on_failure(const std::string& host, TimePoint now);

 private:
  // Failures, as the time until which they count: each adds one refill to it.
  std::map<std::string, TimePoint> busy_until_;
  AttemptLimits limits_;
};

}  // namespace ravnest::trust
