#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "ravnest/planner/model_costs.h"

namespace ravnest::planner {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Sums of times are compared with this much of leeway.
inline constexpr double kRounding = 1.0 + 1e-12;

using Flags = std::vector<std::uint8_t>;  // by position

// By position: the next one that is set, or past the end.
inline std::vector<std::size_t> next_set(const Flags& flags) {
  std::vector<std::size_t> next(flags.size() + 1, flags.size());
  for (std::size_t at = flags.size(); at-- > 0;) {
    next[at] = flags[at] != 0 ? at : next[at + 1];
  }
  return next;
}

// How far from a position a worker's stage may reach.
class Reach {
 public:
  explicit Reach(const ModelCosts& costs, bool needs_parameter) : costs_(costs) {
    const std::size_t size = costs.size();
    shortest_.resize(size + 1, size + 1);
    for (std::size_t first = 0; first < size; ++first) {
      std::size_t last = first + 1;
      while (needs_parameter && last <= size &&
             costs.first_parameter(last) == costs.first_parameter(first)) {
        ++last;
      }
      shortest_[first] = last;  // size + 1: none
    }
  }

  // The end of the shortest stage from here that has a parameter of its own.
  std::size_t shortest(std::size_t first) const { return shortest_[first]; }

  // By first position: ends that fit the RAM. All up to `safe` do, none beyond `most`.
  struct Ends {
    std::vector<std::size_t> safe;
    std::vector<std::size_t> most;
    std::int64_t ram_bytes = 0;
    std::size_t passes = 1;
  };

  Ends by_memory(std::int64_t ram_bytes, std::size_t passes) const {
    return {.safe = furthest([&](std::size_t first, std::size_t last) {
              return costs_.most_memory(first, last, passes) <= ram_bytes;
            }),
            .most = furthest([&](std::size_t first, std::size_t last) {
              return costs_.least_memory(first, last, passes) <= ram_bytes;
            }),
            .ram_bytes = ram_bytes,
            .passes = passes};
  }

  bool fits(const Ends& ends, std::size_t first, std::size_t last) const {
    return last <= ends.safe[first] ||
           (last <= ends.most[first] &&
            costs_.memory(first, last, ends.passes).total() <= ends.ram_bytes);
  }

  // By first position: the furthest end that is computed in time.
  std::vector<std::size_t> by_time(double gflops, double seconds) const {
    const double most = seconds * gflops * 1e9 * kRounding;
    return furthest(
        [&](std::size_t first, std::size_t last) { return costs_.work(first, last) <= most; });
  }

 private:
  // Of a condition that a longer range is less likely to meet.
  template <typename Condition>
  std::vector<std::size_t> furthest(Condition&& holds) const {
    std::vector<std::size_t> ends(costs_.size() + 1, costs_.size());
    std::size_t last = 0;
    for (std::size_t first = 0; first < costs_.size(); ++first) {
      last = std::max(last, first);
      while (last < costs_.size() && holds(first, last + 1)) {
        ++last;
      }
      ends[first] = last;
    }
    return ends;
  }

  const ModelCosts& costs_;
  std::vector<std::size_t> shortest_;
};

}  // namespace ravnest::planner
