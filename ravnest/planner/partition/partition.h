#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ravnest/planner/model_costs.h"
#include "ravnest/planner/pool.h"

namespace ravnest::planner {

// A machine as the cutting sees it.
struct Worker {
  std::int64_t ram_bytes = 0;
  double gflops = 0.0;

  bool operator==(const Worker&) const = default;
};

// Who holds which part of the model: worker order[s] holds the positions
// [cuts[s - 1], cuts[s]), from the start of the model to its end.
struct Partition {
  std::vector<std::size_t> order;
  std::vector<std::size_t> cuts;
  double bottleneck_seconds = 0.0;  // the slowest stage or link
};

// A cluster to be cut: workers, and what lies between each two of them (mbps, by
// first · workers + second).
struct PartitionProblem {
  std::vector<Worker> workers;
  std::vector<double> mbps;
  // Where speeds are guesses, times of computing and links cannot be compared: every stage
  // then computes at most this long, and the slowest link alone is made as fast as it can be.
  std::optional<double> compute_limit;

  double compute_bound(double seconds) const { return compute_limit.value_or(seconds); }

  double mbps_between(std::size_t a, std::size_t b) const { return mbps[a * workers.size() + b]; }
};

PartitionProblem make_problem(const std::vector<Machine>& pool, const std::vector<double>& gflops,
                              const std::vector<std::size_t>& members);

// Seconds that one pass takes on a link at this position: the slower of the two ways.
double link_seconds(const ModelCosts& costs, std::size_t position, double mbps);

// Whether these workers, taken in this order, can hold the model.
bool fits(const ModelCosts& costs, const PartitionProblem& problem);

// The order of workers and the cuts that make the slowest computation or link as fast as
// it can be, within everybody's RAM, with a stage for each; nothing where the model does
// not fit. Among the best, the order that is first by worker; then the cuts that spread
// the work best. Exact while the orders that differ are few (up to nine workers that are
// all different, many more where some are alike); beyond, workers of nearly the same
// size count as alike when the order is chosen, and the cuts are exact for that order.
std::optional<Partition> partition(const ModelCosts& costs, const PartitionProblem& problem);

// The same where no speed is known: work is spread evenly first, to within a quarter of the
// best, and then the links decide.
std::optional<Partition> partition_evenly(const ModelCosts& costs, PartitionProblem problem);

}  // namespace ravnest::planner
