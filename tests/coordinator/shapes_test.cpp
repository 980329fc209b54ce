#include "ravnest/coordinator/shapes.h"

#include <gtest/gtest.h>

namespace ravnest::coordinator {
namespace {

using planner::Cluster;
using planner::Plan;

// Two clusters of two machines of 10 GFLOP/s and 8 GB, over 10 ops of a tenth of a second each. The
// first is cut in the middle, the other after so many ops; in the rings' parameters the cuts show.
Plan plan_cut_after(std::size_t ops, double gflops = 10.0) {
  Plan plan;
  for (std::int64_t id = 0; id < 4; ++id) {
    plan.pool.push_back({.id = id, .ram_gb = 8.0, .mbps = 100.0, .gflops = 10.0});
  }
  plan.pool[3].gflops = gflops;
  for (std::size_t c = 0; c < 2; ++c) {
    const std::size_t cut = c == 0 ? 5 : ops;
    Cluster& cluster = plan.clusters.emplace_back();
    for (std::size_t k = 0; k < 2; ++k) {
      planner::Stage& stage = cluster.stages.emplace_back();
      stage.machine = 2 * c + k;
      stage.first_op = k == 0 ? 0 : cut;
      stage.last_op = k == 0 ? cut : 10;
      stage.delay = 1 - k;
      stage.memory.weights = 1'000'000'000;
      stage.forward_seconds = 0.1 * static_cast<double>(stage.last_op - stage.first_op) * 10.0 /
                              *plan.pool[stage.machine].gflops;
    }
  }
  plan.rings = {{.id = 0, .parameters = {"a"}, .nbytes = 4, .holders = {0, 0}},
                {.id = 1, .parameters = {"b"}, .nbytes = 4, .holders = {ops > 5 ? 1U : 0U, 0}},
                {.id = 2, .parameters = {"c"}, .nbytes = 4, .holders = {1, 1}}};
  return plan;
}

TEST(Shapes, ClustersThatAreCutAlikeAreOne) {
  const Shapes shapes = find_shapes(plan_cut_after(5));
  EXPECT_EQ(shapes.by_cluster, (std::vector<std::size_t>{0, 0}));
  ASSERT_EQ(shapes.plan.clusters.size(), 1U);
  EXPECT_EQ(shapes.plan.clusters[0].stages[0].last_op, 5U);
}

TEST(Shapes, AMachineThatIsHardlyFasterIsCutLikeOthers) {
  Plan plan = plan_cut_after(5, 10.5);
  plan.clusters[1].stages[0].last_op = 4;  // 0.4 s, and 6 ops in 0.57 s
  plan.clusters[1].stages[0].forward_seconds = 0.4;
  plan.clusters[1].stages[1].first_op = 4;
  plan.clusters[1].stages[1].forward_seconds = 0.6 * 10.0 / 10.5;
  EXPECT_EQ(find_shapes(plan).plan.clusters.size(), 1U) << "in the middle it takes 0.5 s";
}

TEST(Shapes, AMachineThatIsMuchSlowerHasItsOwn) {
  const Shapes shapes = find_shapes(plan_cut_after(8, 2.5));
  EXPECT_EQ(shapes.by_cluster, (std::vector<std::size_t>{0, 1})) << "0.8 s, or 2 s like others";
  EXPECT_EQ(shapes.plan.rings.size(), 3U);
}

TEST(Shapes, WhoCannotHoldAnothersStageHasItsOwn) {
  Plan plan = plan_cut_after(6);
  EXPECT_EQ(find_shapes(plan_cut_after(6)).by_cluster[1], 0U);
  plan.pool[3].ram_gb = 0.5;
  plan.clusters[1].stages[1].memory.weights = 400'000'000;
  EXPECT_EQ(find_shapes(plan).by_cluster[1], 1U);
}

TEST(Shapes, WhoNeedsMorePassesInFlightHasItsOwn) {
  Plan plan = plan_cut_after(5);
  plan.clusters[1].stages[0].delay = 2;
  EXPECT_EQ(find_shapes(plan).by_cluster[1], 1U);
}

TEST(Shapes, ClustersOfOtherLengthsHaveTheirOwn) {
  Plan plan = plan_cut_after(5);
  plan.clusters[1].stages.pop_back();
  EXPECT_EQ(find_shapes(plan).by_cluster[1], 1U);
}

TEST(Shapes, RingsThatNobodyCutsAreOne) {
  const Shapes shapes = find_shapes(plan_cut_after(6));
  ASSERT_EQ(shapes.plan.clusters.size(), 1U);
  ASSERT_EQ(shapes.plan.rings.size(), 2U);
  EXPECT_EQ(shapes.plan.rings[0].parameters, (std::vector<std::string>{"a"}));
  EXPECT_EQ(shapes.plan.rings[1].parameters, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(shapes.plan.rings[1].nbytes, 8);
  EXPECT_EQ(shapes.plan.rings[1].holders, (std::vector<std::size_t>{1}));
  EXPECT_EQ(shapes.plan.rings[1].id, 1U);
}

}  // namespace
}  // namespace ravnest::coordinator
