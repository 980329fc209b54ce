#include <algorithm>
#include <limits>

#include "ravnest/base/error.h"
#include "ravnest/graph/cost/cost.h"
#include "ravnest/graph/slice.h"

namespace ravnest::graph {

namespace {

// Cuts a row of costs so that the sum of squares of the parts is least, which is
// as equal as they get. Exact; the best last cut only moves to the right with the
// end, so that dividing and conquering takes O(stages · n log n).
class EqualCuts {
 public:
  explicit EqualCuts(std::vector<double> sums) : sums_(std::move(sums)) {}

  std::vector<std::size_t> find(std::size_t stages) {
    const std::size_t n = sums_.size() - 1;
    best_.assign(n + 1, std::numeric_limits<double>::infinity());
    for (std::size_t end = 1; end <= n; ++end) {
      best_[end] = part(0, end);
    }
    for (std::size_t stage = 1; stage < stages; ++stage) {
      next_.assign(n + 1, std::numeric_limits<double>::infinity());
      last_cut_.emplace_back(n + 1, 0);
      solve(stage + 1, n, stage, n - 1);
      best_ = next_;
    }
    std::vector<std::size_t> cuts;
    for (std::size_t end = n; !last_cut_.empty(); last_cut_.pop_back()) {
      end = last_cut_.back()[end];
      cuts.push_back(end);
    }
    std::ranges::reverse(cuts);
    return cuts;
  }

 private:
  double part(std::size_t begin, std::size_t end) const {
    const double cost = sums_[end] - sums_[begin];
    return cost * cost;
  }

  // Ends [first, last], whose best last cut is known to lie in [low, high].
  void solve(std::size_t first, std::size_t last, std::size_t low, std::size_t high) {
    if (first > last) {
      return;
    }
    const std::size_t end = first + (last - first) / 2;
    std::size_t chosen = low;
    for (std::size_t cut = low; cut <= std::min(high, end - 1); ++cut) {
      const double cost = best_[cut] + part(cut, end);
      if (cost < next_[end]) {
        next_[end] = cost;
        chosen = cut;
      }
    }
    last_cut_.back()[end] = chosen;
    solve(first, end - 1, low, chosen);
    solve(end + 1, last, chosen, high);
  }

  std::vector<double> sums_;  // of the costs before each position
  std::vector<double> best_;  // by end, with one part less
  std::vector<double> next_;
  std::vector<std::vector<std::size_t>> last_cut_;  // by number of parts, by end
};

}  // namespace

std::vector<std::size_t> near_equal_cuts(const Program& program, std::size_t stages) {
  const std::size_t ops = program.graph.ops.size();
  if (stages == 0 || stages > std::max<std::size_t>(ops, 1)) {
    throw_invalid("[graph] expected between 1 and ", ops, " stages, got ", stages, ".");
  }
  const GraphCosts costs = estimate_costs(program.graph, program.graph.hints());
  std::vector<double> sums{0};
  for (const OpCost& cost : costs.ops) {
    sums.push_back(sums.back() + 1 + static_cast<double>(cost.flops + cost.backward_flops));
  }
  return EqualCuts(std::move(sums)).find(stages);
}

}  // namespace ravnest::graph
