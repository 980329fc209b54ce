#include <gtest/gtest.h>

#include <set>

#include "ravnest/package/checkpoint_file.h"
#include "ravnest/provider/checkpoint_keeper.h"
#include "tests/provider/cluster.h"

namespace ravnest::provider {
namespace {

TEST(CheckpointKeeper, FollowsTheNumberOfUpdatesOfTheRun) {
  CheckpointKeeper keeper({.path = {}, .every = 3, .update_frequency = 2});
  std::vector<std::int64_t> due;
  for (std::int64_t passes = 8; passes <= 24; passes += 2) {
    if (keeper.is_due(passes)) {
      due.push_back(passes);
    }
  }
  EXPECT_EQ(due, (std::vector<std::int64_t>{12, 18, 24}));
}

TEST(CheckpointKeeper, KeepsOneThatWasAskedForAtTheNextOfEightUpdates) {
  CheckpointKeeper keeper({.path = {}});
  EXPECT_FALSE(keeper.is_due(8));
  keeper.ask();
  EXPECT_FALSE(keeper.is_due(15));
  EXPECT_TRUE(keeper.is_due(16));
  EXPECT_FALSE(keeper.is_due(24));
}

// Which passes the files in a folder are of.
std::set<std::int64_t> versions_in(const std::filesystem::path& folder) {
  std::set<std::int64_t> versions;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::int64_t passes = read_checkpoint(entry.path())->passes;
    EXPECT_EQ(entry.path().filename(), std::to_string(passes) + ".safetensors");
    versions.insert(passes);
  }
  return versions;
}

class Checkpoints : public testing::Test {
 protected:
  Checkpoints() {
    cluster_.adjust = [this](ProviderOptions& options) {
      options.checkpoint_folder = folder_.path() / options.name;
      std::filesystem::create_directories(options.checkpoint_folder);
    };
  }
  std::filesystem::path folder_of(std::size_t stage) const {
    return folder_.path() / ("node_" + std::to_string(stage));
  }

  TemporaryFolder folder_;
  TestCluster cluster_{{3}, {.checkpoint_every = 4}};
};

TEST_F(Checkpoints, AreOfTheSameVersionsAlsoWhereAStageWasStartedAgain) {
  cluster_.start_all();
  const auto batches = make_batches(20);
  cluster_.train({batches.begin(), batches.begin() + 6});
  cluster_.root().wait_until_idle(kLong);
  cluster_.at(1).keep();  // after 6 passes, between two checkpoints
  cluster_.kill(1);
  cluster_.start(1);
  cluster_.train({batches.begin() + 6, batches.end()});
  cluster_.end_training();
  EXPECT_EQ(cluster_.at(1).status().resumed, 6);
  EXPECT_EQ(cluster_.at(1).status().loop.updates, 14U);
  EXPECT_EQ(cluster_.root().status().loop.updates, 20U);
  cluster_.close();
  for (const std::size_t stage : {0U, 1U}) {
    EXPECT_EQ(versions_in(folder_of(stage)), (std::set<std::int64_t>{4, 8, 12, 16, 20}));
  }
}

TEST(Keeping, LeavesTheOthersWaiting) {
  TestCluster cluster({3});
  cluster.start_all();
  cluster.train(make_batches(5));
  cluster.root().wait_until_idle(kLong);
  cluster.leaf().keep();
  const auto path = checkpoint_path(cluster.folder(), cluster.leaf().node());
  cluster.kill(1);
  const auto kept = read_checkpoint(path);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->passes, 5);
  EXPECT_FALSE(cluster.root().is_over());
}

TEST(Keeping, LeavesGradientsOutThatWaitForTheirUpdate) {
  TestCluster cluster({3}, {.update_frequency = 4});
  cluster.start_all();
  cluster.train(make_batches(7));
  cluster.root().wait_until_idle(kLong);
  cluster.leaf().keep();
  EXPECT_EQ(read_checkpoint(checkpoint_path(cluster.folder(), cluster.leaf().node()))->passes, 4);
}

TEST(Keeping, EndsANodeThatHasNoStageYet) {
  TestCluster cluster({3});
  cluster.start(1);
  cluster.leaf().keep();
  EXPECT_TRUE(cluster.leaf().is_over());
  EXPECT_FALSE(std::filesystem::exists(checkpoint_path(cluster.folder(), cluster.leaf().node())));
}

TEST(EndingAlone, TellsNobody) {
  TestCluster cluster({3}, {.ends_alone = true});
  cluster.start(0);
  ProviderCallbacks callbacks;
  callbacks.criterion = [](const PassHeader&, const std::vector<c10::IValue>&) -> LossAndGradients {
    throw std::bad_alloc();
  };
  cluster.start(1, callbacks);
  cluster.train(make_batches(1));
  EXPECT_THROW(cluster.leaf().wait_for_training(0, kLong), std::bad_alloc);
  cluster.kill(1);
  EXPECT_FALSE(cluster.root().is_over());
  cluster.start(1);
  cluster.root().wait_until_idle(kLong);
  cluster.end_training();
  EXPECT_EQ(cluster.leaf().status().passes, 1);
  cluster.close();
}

// Three stages keep theirs, and two of another cut go on from them as the three would have.
TEST(Checkpoint, IsGatheredForStagesThatAreCutElsewhere) {
  const ProviderOptions options{
      .make_rule =
          [] {
            return make_native_rule({.optimizer = "adam", .optimizer_options = {{"lr", 0.05}}});
          },
      .schedule = Schedule::kSync,
      .checkpoint_every = 8};
  const TemporaryFolder kept;
  const auto batches = make_batches(14);
  TestCluster three({2, 4}, options);
  three.adjust = [&](ProviderOptions& each) {
    each.checkpoint_folder = kept.path() / each.name;
    std::filesystem::create_directories(each.checkpoint_folder);
  };
  three.start_all();
  three.train(batches);
  three.end_training();
  three.close();

  TestCluster two({3}, options);
  std::vector<std::filesystem::path> pieces;
  for (std::size_t stage = 0; stage < three.size(); ++stage) {
    pieces.push_back(kept.path() / three.name_of(stage) / "8.safetensors");
  }
  for (std::size_t stage = 0; stage < two.size(); ++stage) {
    const auto node = two.node(stage);
    package::gather_checkpoint(
        pieces, package::checkpoint_names(package::read_stage(two.folder(), node).program),
        node.plan, checkpoint_path(two.folder(), node));
  }
  two.start_all();
  two.train(batches);
  two.end_training();
  two.close();
  const auto expected = three.losses();
  const auto found = two.losses();
  ASSERT_EQ(expected.size(), 14U);
  ASSERT_EQ(found.size(), 6U);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[8 + i], 1e-5) << "loss " << i;
  }
}

}  // namespace
}  // namespace ravnest::provider
