// A provider that is lost between the end of training and the end of the run.

#include <gtest/gtest.h>

#include <fstream>
#include <future>

#include "ravnest/package/trained.h"
#include "ravnest/provider/checkpoint.h"
#include "ravnest/provider/stopped.h"
#include "tests/provider/cluster.h"

namespace ravnest::provider {
namespace {

bool has_checkpoint(const TestCluster& cluster, std::size_t stage) {
  return std::filesystem::exists(checkpoint_path(cluster.folder(), cluster.node(stage)));
}

// What was asked as the root left used to be dropped.
TEST(TrainedRun, LeavesItsWeightsWithThoseThatTheRootHasLeft) {
  TestCluster cluster({3});
  cluster.start_all();
  cluster.train(make_batches(6));
  cluster.end_training();
  const engine::WeightMap trained = cluster.leaf().weights();
  cluster.root().close(Milliseconds(5000));
  ASSERT_TRUE(cluster.leaf().wait_until_over(kLong));
  expect_equal(cluster.leaf().weights(), trained);
  cluster.leaf().save();
  const auto saved = package::read_trained(cluster.folder(), cluster.node(1));
  EXPECT_EQ(saved.passes, 6U);
  EXPECT_TRUE(from_stored(saved.tensors.at("b")).equal(trained.at("b")));
  cluster.leaf().close(Milliseconds(5000));
  expect_equal(cluster.leaf().weights(), trained);
}

TEST(TrainedRun, HasNoWeightsWhereItEndedBeforeItBegan) {
  TestCluster cluster({3});
  cluster.start(1);
  cluster.leaf().stop(130, "it was interrupted");
  EXPECT_THROW(cluster.leaf().weights(), StoppedRun);
}

class AfterTraining : public testing::TestWithParam<std::size_t> {};

TEST_P(AfterTraining, ARestartedStageGoesOnWithItsTrainedWeights) {
  // No checkpoint but that of the end.
  TestCluster cluster({2, 4}, {.checkpoint_every = 1000, .save = true});
  cluster.start_all();
  const auto batches = make_batches(12);
  cluster.train(batches);
  cluster.end_training();
  const engine::WeightMap trained = cluster.at(GetParam()).weights();
  cluster.kill(GetParam());
  cluster.start(GetParam());
  if (GetParam() == 0) {
    cluster.train(batches);  // passed over
    cluster.root().end_training();
  }
  ASSERT_EQ(cluster.at(GetParam()).wait_for_training(0, kLong), 1);
  expect_equal(cluster.at(GetParam()).weights(), trained);
  const auto saved = package::read_trained(cluster.folder(), cluster.node(GetParam()));
  EXPECT_EQ(saved.passes, 12U);
  for (const auto& [name, tensor] : trained) {
    EXPECT_TRUE(from_stored(saved.tensors.at(name)).equal(tensor)) << name;
  }
  cluster.close();
}

INSTANTIATE_TEST_SUITE_P(Stages, AfterTraining, testing::Values(0U, 1U, 2U));

TEST(TrainedRun, TheNextRunStartsAfresh) {
  TestCluster cluster({3}, {.checkpoint_every = 5});
  cluster.start_all();
  const auto batches = make_batches(12);
  cluster.train(batches);
  cluster.end_training();
  EXPECT_TRUE(has_checkpoint(cluster, 0)) << "of the end";
  cluster.close();
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    EXPECT_FALSE(has_checkpoint(cluster, stage)) << stage;
    cluster.kill(stage);
  }
  EXPECT_EQ(cluster.losses().size(), 12U);
  cluster.start_all();
  EXPECT_EQ(cluster.losses().size(), 12U) << "replaced before there was a result";
  cluster.train({batches.begin(), batches.begin() + 3});
  cluster.end_training();
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    EXPECT_EQ(cluster.at(stage).status().resumed, 0);
    EXPECT_EQ(cluster.at(stage).status().passes, 3);
  }
  EXPECT_EQ(cluster.losses().size(), 3U);
  cluster.close();
}

// The root used to say so as soon as it had told the others.
TEST(TrainedRun, TheRootSaysThatItIsTrainedWhenAllHaveSaved) {
  TestCluster cluster({2, 4}, {.save = true});
  std::promise<void> may_save;
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    cluster.start(stage, {.on_saved = [&, stage](const std::filesystem::path&, std::int64_t) {
                    if (stage == 1) {
                      may_save.get_future().wait();
                    }
                  }});
  }
  cluster.train(make_batches(6));
  cluster.root().end_training();
  ASSERT_EQ(cluster.leaf().wait_for_training(0, kLong), 1);
  EXPECT_EQ(cluster.root().wait_for_training(0, Milliseconds(0)), 0);
  may_save.set_value();
  EXPECT_EQ(cluster.root().wait_for_training(0, kLong), 1);
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    EXPECT_EQ(package::read_trained(cluster.folder(), cluster.node(stage)).passes, 6U) << stage;
  }
  cluster.close();
}

TEST(TrainedRun, AStageWithoutACheckpointSavesNothingAndSaysSo) {
  TestCluster cluster({3}, {.checkpoint_every = 0, .save = true});
  cluster.start_all();
  cluster.train(make_batches(6));
  cluster.end_training();
  const auto before = package::read_trained(cluster.folder(), cluster.node(1));
  const at::Tensor saved = from_stored(before.tensors.at("b"));
  cluster.kill(1);
  cluster.start(1);
  try {
    cluster.leaf().wait_for_training(0, kLong);
    FAIL() << "went on";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("started again after 6 passes"), std::string::npos)
        << error.what();
  }
  const auto after = package::read_trained(cluster.folder(), cluster.node(1));
  EXPECT_TRUE(from_stored(after.tensors.at("b")).equal(saved));
}

// Ctrl-C on one, which ends all that are there.
void interrupt(TestCluster& cluster, const std::vector<std::size_t>& running) {
  ASSERT_TRUE(cluster.at(running.front()).wait_until_ready(kLong));
  cluster.at(running.front()).stop(130, "it was interrupted");
  for (const std::size_t stage : running) {
    ASSERT_TRUE(cluster.at(stage).wait_until_over(kLong));
  }
  for (const std::size_t stage : running) {
    cluster.kill(stage);
  }
}

TEST(InterruptedBeforeItsFirstUpdate, ARootLeavesTheWeightsOfTheLastRun) {
  TestCluster cluster({3}, {.save = true});
  cluster.start_all();
  cluster.train(make_batches(6));
  cluster.end_training();
  cluster.close();
  cluster.kill(0);
  cluster.kill(1);
  cluster.start(0);
  interrupt(cluster, {0});
  const auto root = package::read_trained(cluster.folder(), cluster.node(0));
  EXPECT_EQ(root.run, package::read_trained(cluster.folder(), cluster.node(1)).run);
  EXPECT_EQ(root.passes, 6U);
}

TEST(InterruptedBeforeItsFirstUpdate, NobodySavesAnything) {
  TestCluster cluster({3}, {.update_frequency = 4, .save = true});
  cluster.start_all();
  cluster.train(make_batches(2));
  cluster.root().wait_until_idle(kLong);
  interrupt(cluster, {0, 1});
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    EXPECT_FALSE(
        std::filesystem::exists(package::trained_file(cluster.folder(), cluster.node(stage))));
  }
}

class InterruptedAfterACrash : public testing::TestWithParam<std::vector<std::size_t>> {};

// A root that was interrupted as it waited used to take its checkpoint with it.
TEST_P(InterruptedAfterACrash, TheRunGoesOnWhereItWas) {
  TestCluster cluster({3}, {.checkpoint_every = 2});
  cluster.start_all();
  const auto batches = make_batches(8);
  cluster.train({batches.begin(), batches.begin() + 6});
  cluster.root().wait_until_idle(kLong);
  cluster.kill(0);
  if (GetParam().size() == 1) {
    cluster.kill(1);
  }
  cluster.start(0);
  interrupt(cluster, GetParam());
  cluster.start_all();
  cluster.train(batches);
  cluster.end_training();
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    EXPECT_EQ(cluster.at(stage).status().resumed, 6) << stage;
  }
  cluster.close();
  EXPECT_EQ(cluster.losses().size(), 8U);
}

INSTANTIATE_TEST_SUITE_P(Running, InterruptedAfterACrash,
                         testing::Values(std::vector<std::size_t>{0},
                                         std::vector<std::size_t>{0, 1}));

std::size_t lines_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) {
    ++lines;
  }
  return lines;
}

// val_accuracies.txt used to begin anew.
TEST(RestartedLeaf, KeepsTheAccuraciesThatItHasWritten) {
  TestCluster cluster({3}, {.checkpoint_every = 4});
  const auto path = cluster.folder() / "val_accuracies.txt";
  const auto batches = make_batches(8);
  const auto validate = [&](std::int64_t round) {
    ASSERT_TRUE(cluster.root().submit({.purpose = Purpose::kValidate, .samples = 8},
                                      {batches[0].x, as_classes(batches[0].t)}, kLong));
    cluster.root().end_validation();
    ASSERT_EQ(cluster.leaf().wait_for_validation(round - 1, kLong), round);
  };
  cluster.start_all();
  cluster.train(batches);
  validate(1);
  validate(2);
  ASSERT_EQ(lines_in(path), 2U);
  cluster.kill(1);
  cluster.start(1);
  EXPECT_EQ(lines_in(path), 2U);
  validate(3);
  EXPECT_EQ(lines_in(path), 3U);
  // And the root, that had two of them behind its checkpoint.
  cluster.kill(0);
  cluster.start(0);
  cluster.root().skip_validation();
  cluster.root().skip_validation();
  validate(3);
  cluster.end_training();
  EXPECT_EQ(lines_in(path), 3U);
  cluster.close();
  cluster.kill(0);
  cluster.kill(1);
  cluster.start_all();
  validate(1);
  EXPECT_EQ(lines_in(path), 1U);
}

}  // namespace
}  // namespace ravnest::provider
