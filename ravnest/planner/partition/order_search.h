#pragma once

#include <algorithm>
#include <numeric>
#include <ranges>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/planner/partition/partition.h"
#include "ravnest/planner/partition/reach.h"

namespace ravnest::planner {

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

// Looks for an order of kinds and cuts in which nothing takes longer than a bound.
// A state says how many of each kind the rest of the model gets; for every state and
// kind that comes first in it, the positions the rest may start from are kept.
class OrderSearch {
 public:
  OrderSearch(const ModelCosts& costs, const PartitionProblem& problem, const Kinds& kinds,
              const Reach& reach)
      : costs_(costs), problem_(problem), kinds_(kinds), reach_(reach), states_(kinds.states()) {
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
      time_ends_.push_back(reach_.by_time(kind.worker.gflops, problem_.compute_bound(seconds)));
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
  const PartitionProblem& problem_;
  const Kinds& kinds_;
  const Reach& reach_;
  std::size_t states_;
  std::vector<std::size_t> strides_;                   // by kind
  std::vector<std::vector<Reach::Ends>> memory_ends_;  // by kind, passes, first
  std::vector<std::vector<std::size_t>> time_ends_;    // by kind, first
  std::vector<Flags> starts_;                          // by state, kind
  double seconds_ = 0.0;
};

}  // namespace ravnest::planner
