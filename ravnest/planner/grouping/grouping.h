#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace ravnest::planner {

// Machines to be grouped: those of like capability together, every group able to hold
// the model.
struct GroupingProblem {
  struct Point {
    std::array<double, 3> features{};  // logarithms of RAM, bandwidth, speed
    double ram_gb = 0.0;
    // Machines with a link that is slower than their networks allow, and by how much (the
    // logarithm, squared): better not in one group.
    std::vector<std::pair<std::size_t, double>> far;
  };
  std::vector<Point> points;
  std::size_t groups = 1;
  std::size_t least_size = 1;
  // RAM that a group of this many machines needs, in GB.
  std::function<double(std::size_t)> needed_gb;
};

// The group of every machine.
using Grouping = std::vector<std::size_t>;

// The spread of features within groups, over that of the whole pool (0 to 1), and what
// far pairs add; above `kInfeasible` where a group is too small for its size or RAM.
double grouping_cost(const GroupingProblem& problem, const Grouping& grouping);
inline constexpr double kInfeasible = 1e6;

struct GeneticOptions {
  std::uint64_t seed = 0;
  std::size_t population = 0;  // 0: by the number of machines
  std::size_t generations = 0;
  std::function<void()> check_interrupted;  // see PlanOptions
};

// A genetic algorithm: parents chosen by tournament, a child takes whole groups of one
// and the rest of the other, mutates, and climbs by swaps and moves of machines that are
// near each other. A generation costs O(n log n). Deterministic for a seed. The result
// may be infeasible: ask grouping_cost.
Grouping group_machines(const GroupingProblem& problem, const GeneticOptions& options);

}  // namespace ravnest::planner
