#include "ravnest/planner/grouping/grouping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace ravnest::planner {
namespace {

// All ways to put machines into exactly `groups` groups, each once.
void for_each_grouping(std::size_t machines, std::size_t groups, Grouping& grouping,
                       std::size_t used, const std::function<void()>& visit) {
  if (grouping.size() == machines) {
    if (used == groups) {
      visit();
    }
    return;
  }
  for (std::size_t group = 0; group <= std::min(used, groups - 1); ++group) {
    grouping.push_back(group);
    for_each_grouping(machines, groups, grouping, std::max(used, group + 1), visit);
    grouping.pop_back();
  }
}

double best_cost(const GroupingProblem& problem) {
  double best = 1e300;
  Grouping grouping;
  for_each_grouping(problem.points.size(), problem.groups, grouping, 0,
                    [&] { best = std::min(best, grouping_cost(problem, grouping)); });
  return best;
}

GroupingProblem random_problem(std::mt19937& random) {
  const auto below = [&](unsigned bound) { return static_cast<std::size_t>(random() % bound); };
  GroupingProblem problem;
  const std::size_t machines = 3 + below(6);
  const std::size_t features = 2 + below(2);
  double ram = 0.0;
  for (std::size_t i = 0; i < machines; ++i) {
    GroupingProblem::Point point;
    point.ram_gb = std::pow(2.0, static_cast<double>(below(6)));
    point.features = {std::log(point.ram_gb), std::log(5.0 + static_cast<double>(below(100)))};
    if (features == 3) {
      point.features[2] = std::log(1.0 + static_cast<double>(below(20)));
    }
    ram += point.ram_gb;
    problem.points.push_back(std::move(point));
  }
  problem.groups = 1 + below(static_cast<unsigned>(machines));
  problem.least_size = problem.groups * 3 <= machines ? 3 : 1;
  const double needed =
      ram / static_cast<double>(problem.groups) * static_cast<double>(below(11)) / 10.0;
  problem.needed_gb = [needed](std::size_t size) { return needed * (1.0 + 0.02 * double(size)); };
  if (below(3) == 0) {
    problem.points[0].far.emplace_back(1, 0.5);
    problem.points[1].far.emplace_back(0, 0.5);
  }
  return problem;
}

TEST(Grouping, IsWithinOnePercentOfExhaustiveSearchIn200Pools) {
  std::mt19937 random(11);
  int feasible = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const GroupingProblem problem = random_problem(random);
    const double best = best_cost(problem);
    const double found = grouping_cost(
        problem, group_machines(problem, {.seed = static_cast<std::uint64_t>(trial)}));
    EXPECT_LE(found, best * 1.01 + 1e-9) << "trial " << trial;
    feasible += best < kInfeasible ? 1 : 0;
  }
  EXPECT_GT(feasible, 100);
}

TEST(Grouping, PutsLikeMachinesTogether) {
  GroupingProblem problem;
  for (const double ram : {8.0, 64.0, 8.0, 64.0, 64.0, 8.0}) {
    problem.points.push_back(
        {.features = {std::log(ram), std::log(10.0)}, .ram_gb = ram, .far = {}});
  }
  problem.groups = 2;
  problem.least_size = 3;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_EQ(group_machines(problem, {.seed = seed}), (Grouping{0, 1, 0, 1, 1, 0}));
  }
}

TEST(Grouping, EveryGroupHoldsTheModelWhereThatIsPossible) {
  GroupingProblem problem;
  for (const double ram : {1.0, 1.0, 1.0, 9.0, 9.0, 9.0}) {
    problem.points.push_back(
        {.features = {std::log(ram), std::log(10.0)}, .ram_gb = ram, .far = {}});
  }
  problem.groups = 2;
  problem.least_size = 3;
  problem.needed_gb = [](std::size_t) { return 10.0; };
  const Grouping grouping = group_machines(problem, {});
  EXPECT_LT(grouping_cost(problem, grouping), kInfeasible);
}

TEST(Grouping, IsTheSameForTheSameSeed) {
  std::mt19937 random(3);
  GroupingProblem problem;
  for (int i = 0; i < 300; ++i) {
    const double ram = 1.0 + static_cast<double>(random() % 64);
    problem.points.push_back(
        {.features = {std::log(ram), std::log(1.0 + static_cast<double>(random() % 90))},
         .ram_gb = ram,
         .far = {}});
  }
  problem.groups = 100;
  problem.least_size = 3;
  const Grouping once = group_machines(problem, {.seed = 5});
  EXPECT_EQ(once, group_machines(problem, {.seed = 5}));
  EXPECT_LT(grouping_cost(problem, once), 0.1);
}

}  // namespace
}  // namespace ravnest::planner
