#include "ravnest/planner/partition.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <ranges>

#include "ravnest/base/error.h"

namespace ravnest::planner {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1.0 + 1e-12;
constexpr double kPrecision = 1e-9;
constexpr double kCoarse = 1e-3;
// Steps of one feasibility check that are still quick.
constexpr std::size_t kMostSteps = 20'000'000;

// Workers that are alike, so that their order among each other does not matter.
struct Kind {
  Worker worker;
  std::vector<std::size_t> members;
};

struct Kinds {
  std::vector<Kind> kinds;
  std::vector<double> mbps;  // by first · kinds + second

  double mbps_between(std::size_t a, std::size_t b) const { return mbps[a * kinds.size() + b]; }

  // Ways to have used some of each.
  std::size_t states() const {
    double product = 1.0;
    for (const Kind& kind : kinds) {
      product *= static_cast<double>(kind.members.size() + 1);
    }
    return product > 1e9 ? std::numeric_limits<std::size_t>::max()
                         : static_cast<std::size_t>(product);
  }
};

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

using Flags = std::vector<std::uint8_t>;  // by position

// By position: the next one that is set, or past the end.
std::vector<std::size_t> next_set(const Flags& flags) {
  std::vector<std::size_t> next(flags.size() + 1, flags.size());
  for (std::size_t at = flags.size(); at-- > 0;) {
    next[at] = flags[at] != 0 ? at : next[at + 1];
  }
  return next;
}

// Looks for an order of kinds and cuts in which nothing takes longer than a bound.
// A state says how many of each kind the rest of the model gets; for every state and
// kind that comes first in it, the positions the rest may start from are kept.
class OrderSearch {
 public:
  OrderSearch(const ModelCosts& costs, const Kinds& kinds, const Reach& reach)
      : costs_(costs), kinds_(kinds), reach_(reach), states_(kinds.states()) {
    std::size_t stride = 1;
    std::size_t workers = 0;
    for (const Kind& kind : kinds.kinds) {
      strides_.push_back(stride);
      stride *= kind.members.size() + 1;
      workers += kind.members.size();
    }
    for (const Kind& kind : kinds.kinds) {
      auto& ends = memory_ends_.emplace_back();
      for (std::size_t passes = 1; passes <= workers; ++passes) {
        ends.push_back(reach.by_memory(kind.worker.ram_bytes, passes));
      }
    }
    starts_.resize(states_ * kinds.kinds.size());
  }

  bool solve(double seconds) {
    seconds_ = seconds;
    time_ends_.clear();
    for (const Kind& kind : kinds_.kinds) {
      time_ends_.push_back(reach_.by_time(kind.worker.gflops, seconds));
    }
    for (std::size_t state = 1; state < states_; ++state) {
      for (std::size_t kind = 0; kind < kinds_.kinds.size(); ++kind) {
        if (left(state, kind) > 0) {
          find_starts(state, kind);
        }
      }
    }
    return std::ranges::any_of(std::views::iota(std::size_t{0}, kinds_.kinds.size()),
                               [&](std::size_t kind) { return starts(states_ - 1, kind)[0] != 0; });
  }

  // After solve(): workers in the order that is first by worker.
  std::vector<std::size_t> order() const {
    std::vector<std::size_t> order;
    Flags here(costs_.size() + 1, 0);
    here[0] = 1;
    std::size_t previous = kinds_.kinds.size();
    std::vector<std::size_t> used(kinds_.kinds.size(), 0);
    for (std::size_t state = states_ - 1; state > 0;) {
      const std::size_t kind = first_kind(state, previous, here, used);
      order.push_back(kinds_.kinds[kind].members[used[kind]++]);
      here = ends_from(state, kind, previous, here);
      previous = kind;
      state -= strides_[kind];
    }
    return order;
  }

 private:
  std::size_t left(std::size_t state, std::size_t kind) const {
    return state / strides_[kind] % (kinds_.kinds[kind].members.size() + 1);
  }

  std::size_t count(std::size_t state) const {
    std::size_t sum = 0;
    for (std::size_t kind = 0; kind < kinds_.kinds.size(); ++kind) {
      sum += left(state, kind);
    }
    return sum;
  }

  Flags& starts(std::size_t state, std::size_t kind) {
    return starts_[state * kinds_.kinds.size() + kind];
  }
  const Flags& starts(std::size_t state, std::size_t kind) const {
    return starts_[state * kinds_.kinds.size() + kind];
  }

  std::size_t furthest(std::size_t kind, std::size_t passes, std::size_t first) const {
    return std::min(memory_ends_[kind][passes - 1].most[first], time_ends_[kind][first]);
  }

  bool fits(std::size_t kind, std::size_t passes, std::size_t first, std::size_t last) const {
    return reach_.fits(memory_ends_[kind][passes - 1], first, last);
  }

  bool link_is_quick(std::size_t a, std::size_t b, std::size_t position) const {
    return link_seconds(costs_, position, kinds_.mbps_between(a, b)) <= seconds_ * kRounding;
  }

  // Where the stage of `kind` may end so that the rest of the state can go on.
  Flags targets(std::size_t state, std::size_t kind) const {
    Flags found(costs_.size() + 1, 0);
    const std::size_t rest = state - strides_[kind];
    if (rest == 0) {
      found[costs_.size()] = 1;
      return found;
    }
    for (std::size_t next = 0; next < kinds_.kinds.size(); ++next) {
      if (left(rest, next) == 0) {
        continue;
      }
      const Flags& begins = starts(rest, next);
      for (std::size_t at = 1; at < costs_.size(); ++at) {
        if (begins[at] != 0 && found[at] == 0 && link_is_quick(kind, next, at)) {
          found[at] = 1;
        }
      }
    }
    return found;
  }

  void find_starts(std::size_t state, std::size_t kind) {
    const std::vector<std::size_t> next = next_set(targets(state, kind));
    const std::size_t passes = count(state);
    Flags& found = starts(state, kind);
    found.assign(costs_.size() + 1, 0);
    for (std::size_t first = 0; first < costs_.size(); ++first) {
      const std::size_t most = furthest(kind, passes, first);
      std::size_t last = reach_.shortest(first) <= most ? next[reach_.shortest(first)] : most + 1;
      while (last <= most && !fits(kind, passes, first, last)) {
        last = next[last + 1];
      }
      found[first] = last <= most ? 1 : 0;
    }
  }

  bool can_start(std::size_t state, std::size_t kind, std::size_t previous, std::size_t at) const {
    return starts(state, kind)[at] != 0 &&
           (previous == kinds_.kinds.size() || link_is_quick(previous, kind, at));
  }

  std::size_t first_kind(std::size_t state, std::size_t previous, const Flags& here,
                         const std::vector<std::size_t>& used) const {
    std::size_t best = kinds_.kinds.size();
    for (std::size_t kind = 0; kind < kinds_.kinds.size(); ++kind) {
      bool possible = false;
      for (std::size_t at = 0; at < here.size() && !possible && left(state, kind) > 0; ++at) {
        possible = here[at] != 0 && can_start(state, kind, previous, at);
      }
      const auto member = [&](std::size_t of) { return kinds_.kinds[of].members[used[of]]; };
      if (possible && (best == kinds_.kinds.size() || member(kind) < member(best))) {
        best = kind;
      }
    }
    RAVNEST_CHECK(best < kinds_.kinds.size());
    return best;
  }

  Flags ends_from(std::size_t state, std::size_t kind, std::size_t previous,
                  const Flags& here) const {
    const Flags allowed = targets(state, kind);
    const std::size_t passes = count(state);
    std::vector<int> covered(here.size() + 1, 0);  // ranges of ends: begins less those past
    Flags ends(here.size(), 0);
    for (std::size_t at = 0; at < here.size(); ++at) {
      if (here[at] == 0 || !can_start(state, kind, previous, at)) {
        continue;
      }
      const std::size_t most = furthest(kind, passes, at);
      const std::size_t safe = std::min(memory_ends_[kind][passes - 1].safe[at], most);
      const std::size_t shortest = reach_.shortest(at);
      if (shortest <= safe) {
        ++covered[shortest];
        --covered[safe + 1];
      }
      for (std::size_t last = std::max(safe + 1, shortest); last <= most; ++last) {
        ends[last] = fits(kind, passes, at, last) ? 1 : ends[last];
      }
    }
    std::partial_sum(covered.begin(), covered.end(), covered.begin());
    for (std::size_t at = 0; at < here.size(); ++at) {
      ends[at] = covered[at] > 0 || ends[at] != 0 ? allowed[at] : 0;
    }
    return ends;
  }

  const ModelCosts& costs_;
  const Kinds& kinds_;
  const Reach& reach_;
  std::size_t states_;
  std::vector<std::size_t> strides_;                   // by kind
  std::vector<std::vector<Reach::Ends>> memory_ends_;  // by kind, passes, first
  std::vector<std::vector<std::size_t>> time_ends_;    // by kind, first
  std::vector<Flags> starts_;                          // by state, kind
  double seconds_ = 0.0;
};

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
        reach_.by_time(problem_.workers[order_[stage]].gflops, seconds);
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
      most = std::max({most, stage_seconds(stage, first, last), link_after(stage, last)});
    }
    return most;
  }

  const ModelCosts& costs_;
  const PartitionProblem& problem_;
  const Reach& reach_;
  std::vector<std::size_t> order_;
  std::vector<Reach::Ends> memory_ends_;  // by stage
};

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
  while (high - low > kCoarse * high) {
    const double middle = low + (high - low) / 2;
    (is_feasible(middle) ? high : low) = middle;
  }
  high = std::min(high, realised(high));
  while (high > low && is_feasible(high * (1.0 - kPrecision))) {
    const double middle = low + (high - low) / 2;
    const bool is_low_enough = is_feasible(middle);
    low = is_low_enough ? low : middle;
    high = realised(is_low_enough ? middle : high * (1.0 - kPrecision));
  }
  return high;
}

double fastest_possible(const ModelCosts& costs, const PartitionProblem& problem) {
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
  OrderSearch search(costs, kinds, reach);
  std::optional<Partition> best;
  const auto realised = [&](double seconds) {
    RAVNEST_CHECK(search.solve(seconds));
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
    const auto found = best_of_orders(costs, problem, kinds, reach);
    if (step == 0.0) {
      return found;
    }
    if (found) {
      return best_of_chain(costs, problem, reach, found->order);
    }
  }
  return best_of_chain(costs, problem, reach, order_by_ram(problem));
}

}  // namespace ravnest::planner
