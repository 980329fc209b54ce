#include "ravnest/planner/partition/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "tests/planner/models.h"

namespace ravnest::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

PartitionProblem make_problem(std::vector<Worker> workers, double mbps) {
  const std::size_t count = workers.size();
  return {.workers = std::move(workers), .mbps = std::vector<double>(count * count, mbps)};
}

std::size_t stage_end(const ModelCosts& costs, const std::vector<std::size_t>& cuts,
                      std::size_t stage) {
  return stage < cuts.size() ? cuts[stage] : costs.size();
}

// The slowest stage or link; infinite where something does not fit or has no parameter.
double slowest(const ModelCosts& costs, const PartitionProblem& problem,
               const std::vector<std::size_t>& order, const std::vector<std::size_t>& cuts) {
  double most = 0.0;
  for (std::size_t stage = 0; stage < order.size(); ++stage) {
    const std::size_t first = stage == 0 ? 0 : cuts[stage - 1];
    const std::size_t last = stage_end(costs, cuts, stage);
    const Worker& worker = problem.workers[order[stage]];
    if (costs.memory(first, last, order.size() - stage).total() > worker.ram_bytes ||
        costs.first_parameter(first) == costs.first_parameter(last)) {
      return kInfinity;
    }
    most = std::max(most, costs.work(first, last) / (worker.gflops * 1e9));
    if (stage + 1 < order.size()) {
      most = std::max(
          most, link_seconds(costs, last, problem.mbps_between(order[stage], order[stage + 1])));
    }
  }
  return most;
}

void for_each_cuts(std::size_t size, std::size_t count, std::vector<std::size_t>& cuts,
                   const std::function<void()>& visit) {
  if (cuts.size() == count) {
    visit();
    return;
  }
  for (std::size_t cut = cuts.empty() ? 1 : cuts.back() + 1; cut < size; ++cut) {
    cuts.push_back(cut);
    for_each_cuts(size, count, cuts, visit);
    cuts.pop_back();
  }
}

double brute_force(const ModelCosts& costs, const PartitionProblem& problem) {
  std::vector<std::size_t> order(problem.workers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  double best = kInfinity;
  do {
    std::vector<std::size_t> cuts;
    for_each_cuts(costs.size(), order.size() - 1, cuts,
                  [&] { best = std::min(best, slowest(costs, problem, order, cuts)); });
  } while (std::ranges::next_permutation(order).found);
  return best;
}

TEST(Partition, EqualsBruteForceOnRandomClusters) {
  std::mt19937 random(7);
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  int feasible = 0;
  int infeasible = 0;
  for (int trial = 0; trial < 150; ++trial) {
    std::vector<int> widths;
    for (int i = between(5, 9); i > 0; --i) {
      widths.push_back(between(1, 40) * 8);
    }
    const ModelCosts costs(make_chain(widths, between(1, 64)), {});
    const auto whole = static_cast<double>(costs.memory(0, costs.size(), 1).total());
    PartitionProblem problem;
    const int count = between(1, 4);
    for (int i = 0; i < count; ++i) {
      problem.workers.push_back(
          {.ram_bytes = static_cast<std::int64_t>(whole * between(10, 120) / 100.0),
           .gflops = static_cast<double>(between(1, 8))});
    }
    for (int i = 0; i < count * count; ++i) {
      problem.mbps.push_back(between(1, 100) * 10.0);
    }
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < i; ++j) {
        const auto at = [&](int a, int b) { return static_cast<std::size_t>(a * count + b); };
        problem.mbps[at(i, j)] = problem.mbps[at(j, i)];
      }
    }
    const double best = brute_force(costs, problem);
    const auto found = partition(costs, problem);
    ASSERT_EQ(found.has_value(), best < kInfinity) << "trial " << trial;
    if (!found) {
      ++infeasible;
      continue;
    }
    ++feasible;
    EXPECT_NEAR(found->bottleneck_seconds, best, 1e-7 * best) << "trial " << trial;
    EXPECT_DOUBLE_EQ(slowest(costs, problem, found->order, found->cuts), found->bottleneck_seconds);
  }
  EXPECT_GT(feasible, 40);
  EXPECT_GT(infeasible, 10);
}

TEST(Partition, KeepsTheOrderOfEqualWorkersAndSpreadsTheWork) {
  const ModelCosts costs(make_chain({64, 64, 64, 64, 64, 64, 64}), {});
  const auto found = partition(
      costs, make_problem(std::vector<Worker>(3, {.ram_bytes = 1 << 30, .gflops = 1.0}), 1.0));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->order, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(found->cuts, (std::vector<std::size_t>{2, 4}));
}

TEST(Partition, AFasterWorkerGetsMore) {
  const ModelCosts costs(make_chain({64, 64, 64, 64, 64, 64, 64, 64}), {});
  const auto found = partition(costs, make_problem({{.ram_bytes = 1 << 30, .gflops = 1.0},
                                                    {.ram_bytes = 1 << 30, .gflops = 2.0},
                                                    {.ram_bytes = 1 << 30, .gflops = 4.0}},
                                                   1e6));
  ASSERT_TRUE(found.has_value());
  std::vector<std::size_t> sizes(3);
  for (std::size_t stage = 0; stage < 3; ++stage) {
    const std::size_t first = stage == 0 ? 0 : found->cuts[stage - 1];
    sizes[found->order[stage]] = stage_end(costs, found->cuts, stage) - first;
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 2, 4}));
}

TEST(Partition, AWorkerWithMoreRamGoesWhereMorePassesAreInFlight) {
  const ModelCosts costs(make_chain({64, 64, 64, 64, 64, 64, 64}), {});
  const std::int64_t least = costs.memory(costs.size() - 1, costs.size(), 1).total();
  const auto found = partition(costs, make_problem({{.ram_bytes = least, .gflops = 1.0},
                                                    {.ram_bytes = 100 * least, .gflops = 1.0}},
                                                   1e6));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->order, (std::vector<std::size_t>{1, 0}));
}

TEST(Partition, WithoutSpeedsWorkIsSpreadFirstAndLinksDecideThen) {
  // The cheapest cuts are beside the narrow middle; the work is even elsewhere.
  const ModelCosts costs(make_chain({64, 64, 64, 64, 8, 64, 64, 64, 64}), {});
  const PartitionProblem problem =
      make_problem(std::vector<Worker>(2, {.ram_bytes = 1 << 30, .gflops = 50.0}), 1.0);
  const auto even = partition_evenly(costs, problem);
  ASSERT_TRUE(even.has_value());
  EXPECT_EQ(even->cuts, (std::vector<std::size_t>{4}));
  const ModelCosts skewed(make_chain({64, 8, 64, 64, 64, 64, 64, 64}), {});
  // By links alone the cut would be after the first layer.
  EXPECT_EQ(partition(skewed, problem)->cuts, (std::vector<std::size_t>{1}));
  EXPECT_GT(partition_evenly(skewed, problem)->cuts[0], 2u);
}

TEST(Partition, ManyUnequalWorkersAreStillCut) {
  const ModelCosts costs(make_chain(std::vector<int>(61, 32)), {});
  std::vector<Worker> workers;
  for (int i = 0; i < 24; ++i) {
    workers.push_back({.ram_bytes = (1 << 30) + i, .gflops = 1.0 + 0.1 * i});
  }
  const auto found = partition(costs, make_problem(workers, 1e6));
  ASSERT_TRUE(found.has_value());
  std::vector<std::size_t> order = found->order;
  std::ranges::sort(order);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(order[i], i);
  }
  // Sixty layers for 24 workers: as good as three layers on the slowest.
  EXPECT_LT(found->bottleneck_seconds, costs.work(0, 3) / 1e9);
}

TEST(Partition, MoreWorkersThanPartsDoNotFit) {
  const ModelCosts costs(make_chain({8, 8, 8}), {});
  EXPECT_FALSE(
      partition(costs,
                make_problem(std::vector<Worker>(3, {.ram_bytes = 1 << 30, .gflops = 1.0}), 1.0))
          .has_value());
}

}  // namespace
}  // namespace ravnest::planner
