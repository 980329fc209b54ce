#include "ravnest/provider/provider.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <latch>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "ravnest/base/error.h"
#include "ravnest/package/trained.h"
#include "ravnest/provider/stopped.h"
#include "tests/provider/cluster.h"

namespace ravnest::provider {
namespace {

// The same training in one process, with plain autograd. A training ends after so many batches,
// and its last update takes what is left.
std::vector<double> losses_of_one_process(const graph::Program& program,
                                          const std::vector<Batch>& batches,
                                          std::size_t accumulate = 1,
                                          std::size_t training = 1'000'000) {
  engine::BoundProgram model(program);
  std::vector<double> losses;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto outputs = model.run({batches[i].x, batches[i].t}, engine::Mode::kTrain);
    losses.push_back(outputs[0].toTensor().item<double>());
    outputs[0].toTensor().backward();
    const std::size_t batch = i % training;
    if ((batch + 1) % accumulate != 0 && batch + 1 != training) {
      continue;
    }
    const auto passes = static_cast<double>(batch % accumulate + 1);
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : model.weights()) {
      if (tensor.requires_grad()) {
        at::Tensor(tensor).sub_(tensor.grad(), 0.05 / passes);
        tensor.mutable_grad().reset();
      }
    }
  }
  return losses;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], 1e-5 * std::max(1.0, std::abs(wanted[i]))) << "loss " << i;
  }
}

using Cuts = std::vector<std::size_t>;
class Synchronous : public testing::TestWithParam<Cuts> {};

TEST_P(Synchronous, LearnsLikeOneProcess) {
  TestCluster cluster(GetParam(), {.schedule = Schedule::kSync});
  cluster.start_all();
  const auto batches = make_batches(50);
  cluster.train(batches);
  cluster.end_training();
  cluster.close();
  expect_near(cluster.losses(), losses_of_one_process(cluster.program(), batches));
}

TEST_P(Synchronous, AccumulatesMicroBatches) {
  TestCluster cluster(GetParam(), {.schedule = Schedule::kSync, .update_frequency = 4});
  cluster.start_all();
  const auto batches = make_batches(24);
  cluster.train(batches);
  cluster.end_training();
  cluster.close();
  expect_near(cluster.losses(), losses_of_one_process(cluster.program(), batches, 4));
}

TEST_P(Synchronous, RecomputesTheSame) {
  TestCluster cluster(GetParam(),
                      {.schedule = Schedule::kSync, .memory = engine::PassMemory::kRecompute});
  cluster.start_all();
  const auto batches = make_batches(20);
  cluster.train(batches);
  cluster.end_training();
  cluster.close();
  expect_near(cluster.losses(), losses_of_one_process(cluster.program(), batches));
}

// The second training used to be cut into updates that began before it.
TEST_P(Synchronous, TrainsAgainWhereATrainingEndedWithinAnUpdate) {
  TestCluster cluster(GetParam(), {.schedule = Schedule::kSync, .update_frequency = 4});
  cluster.start_all();
  const auto batches = make_batches(20);
  const std::vector<Batch> first(batches.begin(), batches.begin() + 10);
  cluster.train(first);
  cluster.end_training();
  cluster.train({batches.begin() + 10, batches.end()});
  cluster.root().end_training();
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    ASSERT_EQ(cluster.at(stage).wait_for_training(1, kLong), 2);
  }
  cluster.close();
  expect_near(cluster.losses(), losses_of_one_process(cluster.program(), batches, 4, 10));
}

INSTANTIATE_TEST_SUITE_P(Stages, Synchronous,
                         testing::Values(Cuts{}, Cuts{3}, Cuts{1, 4}, Cuts{1, 2, 3, 5}));

TEST(Asynchronous, LearnsWithDelaysWithinTheBound) {
  TestCluster cluster({2, 4});
  cluster.start_all();
  const auto batches = make_batches(64);
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    cluster.train(batches, epoch);
  }
  cluster.end_training();
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    const auto status = cluster.at(stage).status();
    EXPECT_EQ(status.passes, 256);
    EXPECT_EQ(status.epoch, 3);
    EXPECT_EQ(status.loop.updates, 256U);
    EXPECT_LT(status.loop.max_delay, 2 * (cluster.size() - stage));
    // Of every update, and none is later than the bound.
    const auto& delays = status.loop.delays;
    EXPECT_LE(delays.size(), 2 * (cluster.size() - stage));
    EXPECT_EQ(std::accumulate(delays.begin(), delays.end(), std::uint64_t{0}), 256U);
    EXPECT_EQ(status.loop.skipped, 0U);
  }
  EXPECT_EQ(cluster.leaf().status().loop.max_delay, 0U);
  cluster.close();
  const auto losses = cluster.losses();
  ASSERT_EQ(losses.size(), 256U);
  EXPECT_LT(losses.back(), 0.5 * losses.front());
}

TEST(Provider, KeepsTiedWeightsEqual) {
  TestCluster cluster({2, 4});
  cluster.start_all();
  cluster.train(make_batches(20));
  cluster.end_training();
  const at::Tensor home = cluster.root().weights().at("a");
  EXPECT_TRUE(home.equal(cluster.leaf().weights().at("a")));
  EXPECT_FALSE(home.equal(engine::BoundProgram(cluster.program()).weight("a")));
  cluster.close();
}

TEST(Provider, PredictsAndValidatesWithTheTrainedWeights) {
  TestCluster cluster({2, 4});
  cluster.start_all();
  const auto batches = make_batches(8);
  cluster.train(batches);
  cluster.end_training();
  engine::BoundProgram whole(cluster.program());
  for (std::size_t stage = cluster.size(); stage-- > 0;) {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : cluster.at(stage).weights()) {
      at::Tensor(whole.weight(name)).copy_(tensor);  // a home after its copies
    }
  }
  ASSERT_TRUE(cluster.root().submit({.purpose = Purpose::kPredict, .samples = 8},
                                    {batches[0].x, batches[0].t}, kLong));
  const auto predicted = cluster.root().take_prediction(kLong);
  ASSERT_TRUE(predicted);
  const at::Tensor classes = as_classes(batches[0].t);
  const auto wanted = whole.run({batches[0].x, classes}, engine::Mode::kEval);
  EXPECT_TRUE((*predicted)[1].toTensor().equal(wanted[1].toTensor()));

  ASSERT_TRUE(cluster.root().submit({.purpose = Purpose::kValidate, .samples = 8},
                                    {batches[0].x, classes}, kLong));
  cluster.root().end_validation();
  ASSERT_EQ(cluster.root().wait_for_validation(0, kLong), 1);
  const PassResult sums = cluster.root().last_validation();
  EXPECT_NEAR(sums.loss, 8 * wanted[0].toTensor().item<double>(), 1e-5);
  EXPECT_EQ(sums.counted, 8);
  cluster.close();
}

TEST(Provider, EndsByItselfWhenTheRootLeaves) {
  TestCluster cluster({2, 4});
  cluster.start_all();
  cluster.train(make_batches(4));
  cluster.end_training();
  cluster.root().close(Milliseconds(5000));
  cluster.leaf().wait_for_training(5, kLong);  // returns because the run is over
  EXPECT_TRUE(cluster.leaf().is_over());
  cluster.close();
}

TEST(Provider, StopsEverywhereWhenOneIsStopped) {
  TestCluster cluster({2, 4}, {.save = true});
  cluster.start_all();
  cluster.train(make_batches(4));
  cluster.root().wait_until_idle(kLong);
  cluster.at(1).stop(130, "node_1 was interrupted");
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    try {
      cluster.at(stage).wait_for_training(0, kLong);
      FAIL() << "stage " << stage << " went on";
    } catch (const StoppedRun& stopped) {
      EXPECT_EQ(stopped.exit_code(), 130);
      EXPECT_STREQ(stopped.what(), "node_1 was interrupted");
    }
    EXPECT_TRUE(
        std::filesystem::exists(package::trained_file(cluster.folder(), cluster.at(stage).node())));
  }
}

// The leaf's criterion lasts until it is told to return; nobody waits for it to hear of an end.
class StoppedInALongPass : public testing::TestWithParam<std::size_t> {};

TEST_P(StoppedInALongPass, AllHearOfIt) {
  TestCluster cluster({2, 4});
  std::latch is_computing{1};
  std::latch may_return{1};
  ProviderCallbacks callbacks;
  callbacks.criterion = [&](const PassHeader&, const std::vector<c10::IValue>& outputs) {
    is_computing.count_down();
    may_return.wait();
    return LossAndGradients{.loss = 1.0, .gradients = std::vector<at::Tensor>(outputs.size())};
  };
  cluster.start(2, std::move(callbacks));
  cluster.start(1);
  cluster.start(0);
  cluster.train(make_batches(1));
  is_computing.wait();
  cluster.at(GetParam()).stop(130, "somebody was interrupted");
  const auto ends = [&cluster](std::size_t stage) {
    try {
      cluster.at(stage).wait_for_training(0, kLong);
    } catch (const StoppedRun& stopped) {
      return stopped.exit_code();
    }
    return 0;
  };
  EXPECT_EQ(ends(0), 130);
  EXPECT_EQ(ends(1), 130);
  may_return.count_down();
  EXPECT_EQ(ends(2), 130);
}

INSTANTIATE_TEST_SUITE_P(ByAny, StoppedInALongPass, testing::Values(0, 1, 2));

TEST(Provider, RefusesAPortThatIsTaken) {
  TestCluster cluster({2, 4});
  cluster.start(1);
  TestCluster* const same = &cluster;
  try {
    Provider second({.node_data = same->folder(),
                     .name = "node_1",
                     .make_rule = [] { return make_native_rule({}); }},
                    {});
    FAIL() << "took a port twice";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(cluster.at(1).node().address), std::string::npos)
        << error.what();
  }
}

class Restart : public testing::TestWithParam<std::size_t> {};

TEST_P(Restart, GoesOnFromTheLastCheckpoint) {
  TestCluster cluster({2, 4}, {.checkpoint_every = 10});
  cluster.start_all();
  const auto batches = make_batches(40);
  cluster.train(batches);
  cluster.root().wait_until_idle(kLong);
  cluster.kill(GetParam());
  cluster.start(GetParam());
  if (GetParam() == 0) {
    cluster.train(batches);  // a script that is started again begins at its beginning
  }
  cluster.train(batches);
  cluster.end_training();
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    EXPECT_EQ(cluster.at(stage).status().passes, 80);
  }
  const auto restarted = cluster.at(GetParam()).status();
  EXPECT_GE(restarted.resumed, 10);
  EXPECT_LE(restarted.loop.updates, 80U - 10U);
  cluster.close();
  EXPECT_EQ(cluster.losses().size(), 80U);
}

// They used to begin with what they had learned from the root's first try.
TEST(Provider, ARootWithoutACheckpointBeginsAnewWithAllOthers) {
  const auto batches = make_batches(12);
  const ProviderOptions options{.schedule = Schedule::kSync, .save = true};
  TestCluster once({2, 4}, options);
  once.start_all();
  once.train(batches);
  once.end_training();
  TestCluster cluster({2, 4}, options);
  cluster.start_all();
  cluster.train({batches.begin() + 6, batches.end()});
  ASSERT_TRUE(cluster.root().wait_until_idle(kLong));
  cluster.kill(0);
  cluster.start(0);
  cluster.train(batches);
  cluster.end_training();
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    expect_equal(cluster.at(stage).weights(), once.at(stage).weights());
    EXPECT_EQ(cluster.at(stage).status().samples, once.at(stage).status().samples);
  }
  EXPECT_EQ(cluster.losses(), once.losses());
  once.close();
  cluster.close();
}

TEST(Provider, AStageThatComesBackSaysWhatItHasLost) {
  for (const std::int64_t every : {4, 0}) {
    TestCluster cluster({2, 4}, {.checkpoint_every = every});
    cluster.start_all();
    const auto batches = make_batches(12);
    cluster.train({batches.begin(), batches.begin() + 6});
    ASSERT_TRUE(cluster.root().wait_until_idle(kLong));
    cluster.kill(1);
    std::mutex mutex;
    std::string said;
    cluster.start(1, {.on_notice = [&](const transport::Notice& notice) {
                    const std::lock_guard lock(mutex);
                    said += notice.text + "\n";
                  }});
    cluster.train({batches.begin() + 6, batches.end()});
    cluster.end_training();
    cluster.close();
    const std::string wanted =
        every > 0 ? "node_1 was started again and goes on from its checkpoint of 4 passes: what it "
                    "had learned from 2 more is lost."
                  : "node_1 was started again and goes on from the plan's weights, since it has no "
                    "checkpoint (checkpoint_every=0): what it had learned from 6 more is lost.";
    EXPECT_NE(said.find(wanted), std::string::npos) << said;
  }
}

TEST(Provider, InputsMayBeFilledAnewOnceTheyAreSubmitted) {
  const auto batches = make_batches(8);
  TestCluster wanted({3}, {.schedule = Schedule::kSync});
  wanted.start_all();
  wanted.train(batches);
  wanted.end_training();
  TestCluster cluster({3}, {.schedule = Schedule::kSync});
  cluster.start_all();
  const Batch filled{at::empty({8, 4}), at::empty({8, 4})};
  for (const Batch& batch : batches) {
    filled.x.copy_(batch.x);
    filled.t.copy_(batch.t);
    cluster.train({filled});
  }
  cluster.end_training();
  EXPECT_EQ(cluster.losses(), wanted.losses());
  wanted.close();
  cluster.close();
}

// Its updates used to be of other passes than those of the others from there on.
TEST(Provider, AStageThatIsStartedAgainLearnsFromTheUpdatesOfTheOthers) {
  TestCluster cluster({2, 4}, {.update_frequency = 4, .checkpoint_every = 1});
  cluster.start_all();
  const auto batches = make_batches(16);
  cluster.train({batches.begin(), batches.begin() + 6});
  ASSERT_TRUE(cluster.root().wait_until_idle(kLong));
  cluster.kill(1);
  cluster.start(1);
  cluster.train({batches.begin() + 6, batches.end()});
  cluster.end_training();
  EXPECT_EQ(cluster.at(1).status().resumed, 4);
  EXPECT_EQ(cluster.at(1).status().loop.updates, 2U) << "of the passes from 8 on";
  EXPECT_EQ(cluster.root().status().loop.updates, 4U);
  cluster.close();
}

// The last two layers share a weight, which lives in the stem.
constexpr const char* kTiedInTheStem = R"(
weight parameter "a" : f32[4, 4]
weight parameter "b" : f32[4, 4]
graph
  symbol s0 = 8 in [2, inf]
  parameter %a : f32[4, 4] = "a"
  parameter %b : f32[4, 4] = "b"
  input %x : f32[s0, 4]
  input %t : f32[s0, 4]
  %h : f32[s0, 4] = aten.linear.default(input=%x, weight=%b)
  %i : f32[s0, 4] = aten.tanh.default(self=%h)
  %k : f32[s0, 4] = aten.linear.default(input=%i, weight=%a)
  %l : f32[s0, 4] = aten.tanh.default(self=%k)
  %n : f32[s0, 4] = aten.linear.default(input=%l, weight=%a)
  %e : f32[] = aten.mse_loss.default(self=%n, target=%t)
  return %e, %n
)";

// The leaf used to wait for updates that the stem had lost.
TEST(Provider, GoesOnInStepWhereTheHomeOfATiedWeightIsStartedAgain) {
  TestCluster cluster({2, 4}, {.schedule = Schedule::kSync, .checkpoint_every = 2}, kTiedInTheStem);
  cluster.start_all();
  const auto batches = make_batches(10);
  cluster.train({batches.begin(), batches.begin() + 5});
  ASSERT_TRUE(cluster.root().wait_until_idle(kLong));
  cluster.kill(1);
  cluster.start(1);
  cluster.train({batches.begin() + 5, batches.end()});
  cluster.end_training();
  EXPECT_EQ(cluster.at(1).status().resumed, 4);
  EXPECT_EQ(cluster.at(1).status().loop.updates, 5U);
  EXPECT_TRUE(cluster.at(1).weights().at("a").equal(cluster.leaf().weights().at("a")));
  cluster.close();
}

// A schedule is as long as the updates that are whole; the rest of a training used to be one more.
TEST(Provider, EndsATrainingWithTheScheduleThatEndsWithIt) {
  ProviderOptions options{.update_frequency = 4};
  options.make_rule = [] {
    return make_native_rule({.optimizer = "sgd",
                             .optimizer_options = {{"lr", 0.05}},
                             .scheduler = "OneCycleLR",
                             .scheduler_options = {{"max_lr", 0.05}, {"total_steps", 4.0}},
                             .step_on_epoch = false});
  };
  TestCluster cluster({2, 4}, options);
  cluster.start_all();
  cluster.train(make_batches(18));
  cluster.end_training();
  EXPECT_EQ(cluster.root().status().loop.updates, 5U);
  cluster.close();
}

INSTANTIATE_TEST_SUITE_P(Stages, Restart, testing::Values(0U, 1U, 2U));

TEST(Provider, SendsPassesInFlightAgainWhenAStageIsLost) {
  TestCluster cluster({2, 4});
  std::latch is_third(1);
  std::latch may_go_on(1);
  ProviderCallbacks callbacks;
  callbacks.on_learned = [&, count = 0](const PassHeader&, const PassResult&) mutable {
    if (++count == 3) {
      is_third.count_down();
      may_go_on.wait();
    }
  };
  cluster.start(0);
  cluster.start(1);
  cluster.start(2, callbacks);
  const auto batches = make_batches(12);
  std::thread feeding([&] { cluster.train(batches); });
  is_third.wait();
  cluster.kill(1);
  cluster.start(1);
  may_go_on.count_down();
  feeding.join();
  cluster.end_training();
  for (const std::size_t stage : {0U, 2U}) {
    EXPECT_EQ(cluster.at(stage).status().loop.updates, 12U);
  }
  EXPECT_EQ(cluster.at(1).status().passes, 12);
  cluster.close();
  EXPECT_EQ(cluster.losses().size(), 12U);
}

TEST(Provider, LearnsThroughANarrowCodec) {
  TestCluster cluster({3}, {.codec = "int8"});
  cluster.start_all();
  const auto batches = make_batches(64);
  cluster.train(batches);
  cluster.end_training();
  cluster.close();
  const auto losses = cluster.losses();
  EXPECT_LT(losses.back(), 0.8 * losses.front());
}

// How many threads libtorch has for a stage, as its loop sees it.
int threads_of(const ProviderOptions& options) {
  TestCluster cluster({2, 4}, options);
  std::atomic<int> threads = 0;
  ProviderCallbacks callbacks;
  callbacks.on_learned = [&](const PassHeader&, const PassResult&) {
    threads = at::get_num_threads();
  };
  cluster.start(2, callbacks);
  cluster.start(1);
  cluster.start(0);
  cluster.train(make_batches(1));
  cluster.end_training();
  cluster.close();
  return threads;
}

class Threads : public testing::Test {
 protected:
  Threads() { unsetenv("OMP_NUM_THREADS"); }
  ~Threads() override {
    if (before_) {
      setenv("OMP_NUM_THREADS", before_->c_str(), 1);
    } else {
      unsetenv("OMP_NUM_THREADS");
    }
  }

 private:
  static std::optional<std::string> read() {
    const char* given = std::getenv("OMP_NUM_THREADS");
    return given == nullptr ? std::nullopt : std::optional<std::string>(given);
  }
  const std::optional<std::string> before_ = read();
};

TEST_F(Threads, AreTheCoresSharedAmongTheProvidersOfAMachine) {
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  EXPECT_EQ(threads_of({}), std::max(1, static_cast<int>(cores / 3)));
}

TEST_F(Threads, AreThoseThatWereAskedFor) {
  setenv("OMP_NUM_THREADS", "7", 1);
  EXPECT_EQ(threads_of({.threads = 3}), 3);
}

TEST_F(Threads, AreLeftToOpenMpWhereItsVariableIsSet) {
  int of_a_new_thread = 0;
  std::thread([&] { of_a_new_thread = at::get_num_threads(); }).join();
  setenv("OMP_NUM_THREADS", std::to_string(of_a_new_thread).c_str(), 1);
  EXPECT_EQ(threads_of({}), of_a_new_thread);
}

TEST(Provider, EndsWithTheErrorOfItsModel) {
  TestCluster cluster({2, 4});
  cluster.start_all();
  ASSERT_TRUE(cluster.root().submit({.samples = 8}, {at::ones({8, 5}), at::ones({8, 4})}, kLong));
  EXPECT_ANY_THROW(cluster.root().wait_until_idle(kLong));
  EXPECT_ANY_THROW(cluster.leaf().wait_for_training(0, kLong));
}

}  // namespace
}  // namespace ravnest::provider
