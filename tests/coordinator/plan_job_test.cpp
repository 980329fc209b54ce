#include "ravnest/coordinator/plan_job.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "ravnest/base/error.h"
#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/package/package.h"
#include "tests/base/temporary_folder.h"
#include "tests/package/plans.h"

namespace ravnest::coordinator {
namespace {

class PlanJob : public testing::Test {
 protected:
  Hash put_program() {
    const auto file = folder_.path() / "model.pt2";
    graph::write_pt2(package::make_program(), file);
    return artifacts_.take_file(file);
  }
  MakePlan ask(const Hash& program, std::size_t providers, double ram_gb = 1.0) const {
    MakePlan ask{.job = 3, .epoch = 7, .program = program};
    for (std::size_t i = 0; i < providers; ++i) {
      ask.pool.push_back({concat("provider-", i), {.ram_gb = ram_gb, .mbps = 100.0}});
    }
    return ask;
  }
  PlanAnswer answer(const MakePlan& ask) {
    return plan_job(ask, artifacts_, {.scratch = folder_.path() / "scratch"});
  }

  TemporaryFolder folder_;
  Artifacts artifacts_{folder_.path() / "artifacts"};
};

TEST_F(PlanJob, PutsEveryStagesFilesAmongTheArtifacts) {
  const auto made = std::get<PlanMade>(answer(ask(put_program(), 3)));
  EXPECT_EQ(made.job, 3);
  EXPECT_EQ(made.epoch, 7);
  ASSERT_EQ(made.plan.shapes.size(), 1U);
  ASSERT_EQ(made.clusters[0].providers.size(), 3U);
  std::int64_t at = 0;
  for (const StageShape& stage : made.plan.shapes[0].stages) {
    EXPECT_EQ(stage.first_op, at);
    at = stage.last_op;
    EXPECT_GT(stage.memory_bytes, 0);
    EXPECT_NO_THROW(graph::read_pt2(artifacts_.get(stage.sub_model), "sub-model"));
    EXPECT_EQ(stage.files[stage.first_op == 0 ? 1 : 0].name, "node.json");
    for (const File& file : stage.files) {
      EXPECT_TRUE(artifacts_.has(file.hash));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "scratch" / "plan-3-7"));
}

// A provider lays the files out again, and package reads them.
TEST_F(PlanJob, TheFilesAreANodesPartOfThePlan) {
  const auto made = std::get<PlanMade>(answer(ask(put_program(), 3)));
  const auto node_data = folder_.path() / "node_data";
  const StageShape& stage = made.plan.shapes[0].stages[1];
  const auto copy = [&](const Hash& hash, const std::filesystem::path& to) {
    std::filesystem::create_directories(to.parent_path());
    std::filesystem::copy_file(folder_.path() / "artifacts" / hash, to);
  };
  const auto stage_folder = node_data / "cluster_0" / "cluster-0.stage-1:1";
  copy(stage.sub_model, stage_folder / "submod.pt2");
  for (const File& file : stage.files) {
    copy(file.hash,
         file.name == "node.json" ? node_data / "nodes" / "node_1.json" : stage_folder / file.name);
  }
  const auto node = package::read_node(node_data, "node_1");
  EXPECT_EQ(node.plan, made.plan.id);
  EXPECT_EQ(node.previous, "cluster-0.stage-0:1");
  EXPECT_EQ(node.next, "cluster-0.stage-2:1");
  EXPECT_NO_THROW(package::read_stage(node_data, node));
}

TEST_F(PlanJob, ClustersThatAreCutAlikeShareTheirFiles) {
  MakePlan six = ask(put_program(), 6);
  six.options.clusters = 2;
  const auto made = std::get<PlanMade>(answer(six));
  EXPECT_EQ(made.plan.shapes.size(), 1U);
  ASSERT_EQ(made.clusters.size(), 2U);
  std::set<MemberId> seen;
  for (const PlannedCluster& cluster : made.clusters) {
    EXPECT_EQ(cluster.shape, 0U);
    EXPECT_EQ(cluster.providers.size(), 3U);
    seen.insert(cluster.providers.begin(), cluster.providers.end());
  }
  EXPECT_EQ(seen.size(), 6U);
}

TEST_F(PlanJob, ClustersThatAreCutOtherwiseHaveTheirOwn) {
  MakePlan five = ask(put_program(), 5);
  five.options.clusters = 2;
  const auto made = std::get<PlanMade>(answer(five));
  ASSERT_EQ(made.clusters.size(), 2U);
  ASSERT_EQ(made.plan.shapes.size(), 2U);
  EXPECT_NE(made.clusters[0].shape, made.clusters[1].shape);
  for (const PlannedCluster& cluster : made.clusters) {
    EXPECT_EQ(cluster.providers.size(), made.plan.shapes[cluster.shape].stages.size());
  }
}

TEST_F(PlanJob, TheSameQuestionHasTheSameAnswer) {
  const Hash program = put_program();
  const auto first = std::get<PlanMade>(answer(ask(program, 4)));
  const auto second = std::get<PlanMade>(answer(ask(program, 4)));
  EXPECT_EQ(first.plan, second.plan);
  EXPECT_EQ(first.clusters, second.clusters);
}

// Two that have a poor link between them are not neighbours, whichever of them told of it.
TEST_F(PlanJob, LinksBetweenProvidersCount) {
  const Hash program = put_program();
  for (std::size_t middle = 0; middle < 3; ++middle) {
    const std::size_t from = middle == 0 ? 1 : 0;
    const std::size_t to = 3 - middle - from;
    MakePlan three = ask(program, 3);
    three.pool[to].measured.links[three.pool[from].provider] = {.mbps = 0.01, .latency_ms = 900.0};
    const auto made = std::get<PlanMade>(answer(three));
    ASSERT_EQ(made.clusters[0].providers.size(), 3U);
    EXPECT_EQ(made.clusters[0].providers[1], three.pool[middle].provider);
  }
}

TEST_F(PlanJob, APoolThatIsTooSmallIsNotFinal) {
  const auto failed = std::get<PlanFailed>(answer(ask(put_program(), 2, 1e-9)));
  EXPECT_FALSE(failed.is_final);
  EXPECT_EQ(failed.epoch, 7);
  EXPECT_NE(failed.reason.find("[planner]"), std::string::npos);
}

TEST_F(PlanJob, AJobThatHasBegunGoesOnWithFewerClusters) {
  MakePlan two = ask(put_program(), 1);
  two.options.clusters = 2;
  EXPECT_FALSE(std::get<PlanFailed>(answer(two)).is_final);
  two.goes_on = true;
  EXPECT_EQ(std::get<PlanMade>(answer(two)).clusters.size(), 1U);
  two.pool = ask(two.program, 2).pool;
  EXPECT_EQ(std::get<PlanMade>(answer(two)).clusters.size(), 2U);
  two.pool = ask(two.program, 1, 1e-9).pool;
  EXPECT_FALSE(std::get<PlanFailed>(answer(two)).is_final);
}

TEST_F(PlanJob, AProgramThatCannotBeReadIsFinal) {
  std::ofstream(folder_.path() / "junk") << "not a model";
  const Hash junk = artifacts_.take_file(folder_.path() / "junk");
  EXPECT_TRUE(std::get<PlanFailed>(answer(ask(junk, 2))).is_final);
  EXPECT_TRUE(std::get<PlanFailed>(answer(ask(std::string(64, 'a'), 2))).is_final);
}

}  // namespace
}  // namespace ravnest::coordinator
