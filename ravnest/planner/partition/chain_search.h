#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ravnest/planner/partition/partition.h"
#include "ravnest/planner/partition/reach.h"

namespace ravnest::planner {

// The cuts of a given order: which bounds can be kept, and the best spread within one.
class ChainSearch {
 public:
  ChainSearch(const ModelCosts& costs, const PartitionProblem& problem, const Reach& reach,
              std::vector<std::size_t> order)
      : costs_(costs), problem_(problem), reach_(reach), order_(std::move(order)) {
    for (std::size_t stage = 0; stage < order_.size(); ++stage) {
      memory_ends_.push_back(
          reach.by_memory(problem.workers[order_[stage]].ram_bytes, order_.size() - stage));
    }
  }

  // The cuts with the most even spread of work in which nothing takes longer.
  std::optional<Partition> solve(double seconds) const {
    const std::size_t size = costs_.size();
    std::vector<std::vector<std::size_t>> came_from;
    std::vector<double> best(size + 1, kInfinity);
    best[0] = 0.0;
    for (std::size_t stage = 0; stage < order_.size(); ++stage) {
      came_from.emplace_back(size + 1, 0);
      best = extend(best, stage, seconds, came_from.back());
    }
    if (best[size] == kInfinity) {
      return std::nullopt;
    }
    Partition found{.order = order_, .cuts = {}, .bottleneck_seconds = 0.0};
    for (std::size_t stage = order_.size(), at = size; stage-- > 1;) {
      at = came_from[stage][at];
      found.cuts.push_back(at);
    }
    std::ranges::reverse(found.cuts);
    found.bottleneck_seconds = slowest(found);
    return found;
  }

 private:
  double stage_seconds(std::size_t stage, std::size_t first, std::size_t last) const {
    return costs_.work(first, last) / (problem_.workers[order_[stage]].gflops * 1e9);
  }

  double link_after(std::size_t stage, std::size_t position) const {
    return stage + 1 == order_.size()
               ? 0.0
               : link_seconds(costs_, position,
                              problem_.mbps_between(order_[stage], order_[stage + 1]));
  }

  // What a stage adds to the spread. Times weighed by speed are least when all are equal.
  double weigh(std::size_t stage, std::size_t first, std::size_t last) const {
    const double seconds = stage_seconds(stage, first, last);
    return seconds * seconds * problem_.workers[order_[stage]].gflops;
  }

  std::vector<double> extend(const std::vector<double>& best, std::size_t stage, double seconds,
                             std::vector<std::size_t>& came_from) const {
    const std::size_t size = costs_.size();
    const bool is_last = stage + 1 == order_.size();
    const std::vector<std::size_t> time_ends =
        reach_.by_time(problem_.workers[order_[stage]].gflops, problem_.compute_bound(seconds));
    Flags allowed(size + 1, 0);
    for (std::size_t at = 1; at < size && !is_last; ++at) {
      allowed[at] = link_after(stage, at) <= seconds * kRounding ? 1 : 0;
    }
    allowed[size] = is_last ? 1 : 0;
    std::vector<double> next(size + 1, kInfinity);
    for (std::size_t first = 0; first < size; ++first) {
      if (best[first] == kInfinity) {
        continue;
      }
      const std::size_t most = std::min(memory_ends_[stage].most[first], time_ends[first]);
      const std::size_t begin =
          is_last ? std::max(size, reach_.shortest(first)) : reach_.shortest(first);
      for (std::size_t last = begin; last <= most; ++last) {
        const double cost =
            allowed[last] != 0 ? best[first] + weigh(stage, first, last) : kInfinity;
        if (cost < next[last] && reach_.fits(memory_ends_[stage], first, last)) {
          next[last] = cost;
          came_from[last] = first;
        }
      }
    }
    return next;
  }

  double slowest(const Partition& found) const {
    double most = 0.0;
    for (std::size_t stage = 0; stage < order_.size(); ++stage) {
      const std::size_t first = stage == 0 ? 0 : found.cuts[stage - 1];
      const std::size_t last = stage + 1 == order_.size() ? costs_.size() : found.cuts[stage];
      const double computing = problem_.compute_limit ? 0.0 : stage_seconds(stage, first, last);
      most = std::max({most, computing, link_after(stage, last)});
    }
    return most;
  }

  const ModelCosts& costs_;
  const PartitionProblem& problem_;
  const Reach& reach_;
  std::vector<std::size_t> order_;
  std::vector<Reach::Ends> memory_ends_;  // by stage
};

}  // namespace ravnest::planner
