#include "ravnest/planner/partition/partition.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "ravnest/base/error.h"
#include "ravnest/planner/partition/chain_search.h"
#include "ravnest/planner/partition/order_search.h"
#include "ravnest/planner/partition/reach.h"

namespace ravnest::planner {

namespace {

constexpr double kPrecision = 1e-9;
constexpr double kCoarse = 1e-3;
constexpr double kEvenly = 1.25;
constexpr double kLeastSeconds = 1e-12;
// Steps of one feasibility check that are still quick.
constexpr std::size_t kMostSteps = 20'000'000;

double log_step(double value, double step) {
  return step == 0.0 ? value : std::floor(std::log2(value) / step);
}

// Kinds of workers whose sizes are within a factor of 2^step of each other. With a step
// of zero only equals are alike, and only where all their links are.
Kinds find_kinds(const PartitionProblem& problem, double step) {
  const std::size_t count = problem.workers.size();
  const auto is_alike = [&](std::size_t a, std::size_t b) {
    const Worker& one = problem.workers[a];
    const Worker& other = problem.workers[b];
    bool alike = log_step(static_cast<double>(one.ram_bytes), step) ==
                     log_step(static_cast<double>(other.ram_bytes), step) &&
                 log_step(one.gflops, step) == log_step(other.gflops, step);
    for (std::size_t c = 0; c < count && alike; ++c) {
      alike =
          c == a || c == b ||
          log_step(problem.mbps_between(a, c), step) == log_step(problem.mbps_between(b, c), step);
    }
    return alike;
  };
  Kinds found;
  for (std::size_t i = 0; i < count; ++i) {
    const auto same = std::ranges::find_if(
        found.kinds, [&](const Kind& kind) { return is_alike(kind.members[0], i); });
    if (same == found.kinds.end()) {
      found.kinds.push_back({.worker = problem.workers[i], .members = {i}});
      continue;
    }
    same->members.push_back(i);
    same->worker.ram_bytes = std::min(same->worker.ram_bytes, problem.workers[i].ram_bytes);
    same->worker.gflops = std::min(same->worker.gflops, problem.workers[i].gflops);
  }
  for (const Kind& a : found.kinds) {
    for (const Kind& b : found.kinds) {
      double slowest = kInfinity;
      for (const std::size_t i : a.members) {
        for (const std::size_t j : b.members) {
          slowest = i == j ? slowest : std::min(slowest, problem.mbps_between(i, j));
        }
      }
      found.mbps.push_back(slowest);
    }
  }
  return found;
}

// The least bound for which there is a solution. `is_feasible` is quick; `realised` gives
// the bottleneck of a solution within a feasible bound, which is one of finitely many, so
// that the end is exact.
double least_bound(double low, double high, const std::function<bool(double)>& is_feasible,
                   const std::function<double(double)>& realised) {
  while (high - low > kCoarse * high && high > kLeastSeconds) {
    const double middle = low + (high - low) / 2;
    (is_feasible(middle) ? high : low) = middle;
  }
  high = std::min(high, realised(high));
  while (std::isfinite(high) && high > std::max(low, kLeastSeconds) &&
         is_feasible(high * (1.0 - kPrecision))) {
    const double middle = low + (high - low) / 2;
    const bool is_low_enough = is_feasible(middle);
    low = is_low_enough ? low : middle;
    high = realised(is_low_enough ? middle : high * (1.0 - kPrecision));
  }
  return high;
}

double fastest_possible(const ModelCosts& costs, const PartitionProblem& problem) {
  if (problem.compute_limit) {
    return 0.0;
  }
  double speed = 0.0;
  for (const Worker& worker : problem.workers) {
    speed += worker.gflops * 1e9;
  }
  return costs.work(0, costs.size()) / speed;
}

std::optional<Partition> best_of_chain(const ModelCosts& costs, const PartitionProblem& problem,
                                       const Reach& reach, std::vector<std::size_t> order) {
  const ChainSearch search(costs, problem, reach, std::move(order));
  const std::optional<Partition> any = search.solve(kInfinity);
  if (!any) {
    return std::nullopt;
  }
  const double bound = least_bound(
      fastest_possible(costs, problem), any->bottleneck_seconds,
      [&](double seconds) { return search.solve(seconds).has_value(); },
      [&](double seconds) { return search.solve(seconds)->bottleneck_seconds; });
  return search.solve(bound);
}

// Finds the best order of kinds, and the cuts for it. Where kinds are coarse, a bound that
// real workers keep may be out of reach for the slowest of their kinds.
std::optional<Partition> best_of_orders(const ModelCosts& costs, const PartitionProblem& problem,
                                        const Kinds& kinds, const Reach& reach) {
  OrderSearch search(costs, problem, kinds, reach);
  std::optional<Partition> best;
  const auto realised = [&](double seconds) {
    if (!search.solve(seconds)) {
      return seconds;  // that of the best so far, which is out of reach for its kinds
    }
    best = ChainSearch(costs, problem, reach, search.order()).solve(seconds);
    RAVNEST_CHECK(best.has_value());
    return best->bottleneck_seconds;
  };
  if (!search.solve(kInfinity)) {
    return std::nullopt;
  }
  const double bound = least_bound(
      fastest_possible(costs, problem), realised(kInfinity),
      [&](double seconds) { return search.solve(seconds); }, realised);
  if (search.solve(bound)) {
    realised(bound);
  }
  return best;
}

double slowest_stage(const ModelCosts& costs, const PartitionProblem& problem,
                     const Partition& found) {
  double most = 0.0;
  for (std::size_t stage = 0; stage < found.order.size(); ++stage) {
    const std::size_t first = stage == 0 ? 0 : found.cuts[stage - 1];
    const std::size_t last = stage < found.cuts.size() ? found.cuts[stage] : costs.size();
    most = std::max(most,
                    costs.work(first, last) / (problem.workers[found.order[stage]].gflops * 1e9));
  }
  return most;
}

// By RAM, the largest first: the root has the most passes in flight.
std::vector<std::size_t> order_by_ram(const PartitionProblem& problem) {
  std::vector<std::size_t> order(problem.workers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{},
                           [&](std::size_t i) { return problem.workers[i].ram_bytes; });
  return order;
}

}  // namespace

PartitionProblem make_problem(const std::vector<Machine>& pool, const std::vector<double>& gflops,
                              const std::vector<std::size_t>& members) {
  PartitionProblem problem;
  for (const std::size_t member : members) {
    problem.workers.push_back({.ram_bytes = pool[member].ram_bytes(), .gflops = gflops[member]});
    for (const std::size_t other : members) {
      problem.mbps.push_back(link_between(pool[member], pool[other]).mbps);
    }
  }
  return problem;
}

double link_seconds(const ModelCosts& costs, std::size_t position, double mbps) {
  const std::int64_t nbytes =
      std::max(costs.forward_bytes(position), costs.backward_bytes(position));
  return static_cast<double>(nbytes) * 8.0 / (mbps * 1e6);
}

bool fits(const ModelCosts& costs, const PartitionProblem& problem) {
  const Reach reach(costs, costs.parameters().size() >= problem.workers.size());
  std::vector<std::size_t> order(problem.workers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return ChainSearch(costs, problem, reach, std::move(order)).solve(kInfinity).has_value();
}

std::optional<Partition> partition(const ModelCosts& costs, const PartitionProblem& problem) {
  const std::size_t workers = problem.workers.size();
  if (workers == 0 || workers > costs.size()) {
    return std::nullopt;
  }
  const Reach reach(costs, costs.parameters().size() >= workers);
  for (double step : {0.0, 0.25, 0.5, 1.0, 2.0, 4.0}) {
    const Kinds kinds = find_kinds(problem, step);
    const std::size_t states = kinds.states();
    const std::size_t each = kinds.kinds.size() * kinds.kinds.size() * costs.size();
    if (states > kMostSteps / each) {
      continue;
    }
    auto found = best_of_orders(costs, problem, kinds, reach);
    if (step == 0.0) {
      return found;
    }
    if (found) {
      return best_of_chain(costs, problem, reach, found->order);
    }
  }
  return best_of_chain(costs, problem, reach, order_by_ram(problem));
}

std::optional<Partition> partition_evenly(const ModelCosts& costs, PartitionProblem problem) {
  const std::vector<double> mbps = problem.mbps;
  std::ranges::fill(problem.mbps, kInfinity);
  const auto even = partition(costs, problem);
  if (!even) {
    return std::nullopt;
  }
  problem.mbps = mbps;
  problem.compute_limit = even->bottleneck_seconds * kEvenly;
  auto found = partition(costs, problem);
  if (found) {
    found->bottleneck_seconds =
        std::max(found->bottleneck_seconds, slowest_stage(costs, problem, *found));
  }
  return found;
}

}  // namespace ravnest::planner
