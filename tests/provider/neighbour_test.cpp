// What a neighbour may send, and what becomes of the rest.

#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <thread>

#include "ravnest/provider/foreseen.h"
#include "ravnest/provider/stopped.h"
#include "ravnest/provider/values.h"
#include "ravnest/transport/grpc/grpc_transport.h"
#include "ravnest/transport/inbox.h"
#include "tests/provider/cluster.h"

namespace ravnest::provider {
namespace {

constexpr const char* kTwoLayers = R"(
weight parameter "a" : f32[4, 4]
weight parameter "b" : f32[4, 4]
graph
  symbol s0 = 8 in [2, inf]
  parameter %a : f32[4, 4] = "a"
  parameter %b : f32[4, 4] = "b"
  input %x : f32[s0, 4]
  input %t : f32[s0, 4]
  %h : f32[s0, 4] = aten.linear.default(input=%x, weight=%a)
  %i : f32[s0, 4] = aten.tanh.default(self=%h)
  %k : f32[s0, 4] = aten.linear.default(input=%i, weight=%b)
  %e : f32[] = aten.mse_loss.default(self=%k, target=%t)
  return %e, %k
)";

// Bears the name of a node, and says what it likes.
class Impostor {
 public:
  Impostor(const TestCluster& cluster, std::size_t stage) {
    const package::NodeConfig node = cluster.node(stage);
    transport::TransportOptions options;
    options.name = cluster.name_of(stage);
    options.plan = node.plan;
    options.window.messages = 100;
    transport_ = transport::make_grpc_transport({.listen = node.address}, options);
  }

  void hear(const transport::Peer& from, const std::string& channel) {
    receivers_.push_back(transport_->receive(from, channel, inbox_.handler()));
  }
  void pass_over(const transport::Peer& from, const std::string& channel) {
    receivers_.push_back(transport_->receive(from, channel,
                                             {.on_message = [](const transport::Delivery&) {},
                                              .on_end = [](const std::exception_ptr&) {}}));
  }
  std::unique_ptr<transport::Sender> open(const transport::Peer& to, const std::string& channel) {
    return transport_->open(to, channel);
  }
  // The next message that is no word.
  transport::Message next() {
    for (;;) {
      auto delivery = inbox_.take(kLong);
      TestCluster::expect_in_time(delivery.has_value());
      if (delivery->message.kind != transport::MessageKind::kControl) {
        return delivery->message;
      }
    }
  }

 private:
  transport::Inbox inbox_;
  std::unique_ptr<transport::Transport> transport_;
  std::vector<std::unique_ptr<transport::Receiver>> receivers_;
};

class Notices {
 public:
  ProviderCallbacks callbacks() {
    ProviderCallbacks callbacks;
    callbacks.on_notice = [this](const transport::Notice& notice) {
      if (notice.channel == "values") {
        const std::lock_guard lock(mutex_);
        refused_.push_back(notice);
      }
    };
    return callbacks;
  }
  std::vector<transport::Notice> refused() {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

 private:
  std::mutex mutex_;
  std::vector<transport::Notice> refused_;
};

// A root whose leaf is not what it should be.
class BadLeaf : public testing::Test {
 protected:
  BadLeaf() : cluster_({2}, {}, kTwoLayers), leaf_(cluster_, 1) {
    leaf_.hear(cluster_.peer(0), "forward");
    leaf_.pass_over(cluster_.peer(0), "inputs");
    backward_ = leaf_.open(cluster_.peer(0), "backward");
    cluster_.start(0, notices_.callbacks());
  }

  // A pass, answered with this gradient.
  void answer(const at::Tensor& gradient) {
    cluster_.train(make_batches(1));
    const transport::Message forward = leaf_.next();
    transport::Message message =
        to_message(read_header(forward), transport::MessageKind::kBackward);
    add_result({.loss = 1.0}, message);
    pack_tensors({gradient}, message);
    backward_->send(message, kLong);
  }
  void expect_refused(const std::string& text) {
    try {
      cluster_.root().wait_until_idle(kLong);
      FAIL() << "went on";
    } catch (const LocalFault& error) {  // another machine may fare better
      const std::string said = error.what();
      EXPECT_NE(said.find(text), std::string::npos) << said;
      EXPECT_NE(said.find("node_1 sent it"), std::string::npos) << said;
    }
    EXPECT_EQ(cluster_.root().status().loop.suspect, "node_1");
  }

  Notices notices_;
  TestCluster cluster_;
  Impostor leaf_;
  std::unique_ptr<transport::Sender> backward_;
};

TEST_F(BadLeaf, IsRefusedWithAGradientOfAnotherShape) {
  answer(at::zeros({8, 5}));
  expect_refused("the gradient of 'i' came as float32[8, 5], the plan has float32[s0, 4]");
}

TEST_F(BadLeaf, IsRefusedWithAGradientOfAnotherDtype) {
  answer(at::zeros({8, 4}, at::kDouble));
  expect_refused("the gradient of 'i' came as float64[8, 4], the plan has float32[s0, 4]");
}

TEST_F(BadLeaf, ChangesNoWeightWithGradientsThatAreNotFinite) {
  answer(at::ones({8, 4}) * 0.1);
  ASSERT_TRUE(cluster_.root().wait_until_idle(kLong));
  const at::Tensor before = cluster_.root().weights().at("a");
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    at::Tensor gradient = at::ones({8, 4});
    gradient[5][1] = bad;
    answer(gradient);
    ASSERT_TRUE(cluster_.root().wait_until_idle(kLong));
    EXPECT_TRUE(cluster_.root().weights().at("a").equal(before)) << bad;
  }
  auto refused = notices_.refused();
  ASSERT_EQ(refused.size(), 1U) << "said once of several in a row";
  EXPECT_EQ(refused[0].peer, "node_1");
  EXPECT_NE(refused[0].text.find("the gradients from node_1 are not finite"), std::string::npos)
      << refused[0].text;
  EXPECT_EQ(cluster_.root().status().loop.skipped, 2U);
  answer(at::ones({8, 4}) * 0.1);
  ASSERT_TRUE(cluster_.root().wait_until_idle(kLong));
  EXPECT_FALSE(cluster_.root().weights().at("a").equal(before));
  EXPECT_EQ(cluster_.root().status().loop.updates, 4U);
}

TEST_F(BadLeaf, EndsTheRunWithTenBadGradientsInARow) {
  const at::Tensor bad = at::full({8, 4}, std::numeric_limits<float>::quiet_NaN());
  for (int i = 0; i < 9; ++i) {
    answer(bad);
    ASSERT_TRUE(cluster_.root().wait_until_idle(kLong)) << i;
  }
  answer(bad);
  try {
    cluster_.root().wait_until_idle(kLong);
    FAIL() << "went on";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what())
                  .find("node_0 has skipped 10 updates in a row, pass 9: the "
                        "gradients from node_1 are not finite"),
              std::string::npos)
        << error.what();
    EXPECT_EQ(dynamic_cast<const LocalFault*>(&error), nullptr) << "the model may be to blame";
  }
  EXPECT_EQ(cluster_.root().status().loop.suspect, "node_1");
}

TEST_F(BadLeaf, IsSuspectedOfAGradientThatDoesNotFitItsBatch) {
  answer(at::ones({9, 4}));
  EXPECT_ANY_THROW(cluster_.root().wait_until_idle(kLong));
  EXPECT_EQ(cluster_.root().status().loop.suspect, "node_1");
}

TEST_F(BadLeaf, IsRefusedWithTheGradientOfAPassThatThereIsNot) {
  cluster_.train(make_batches(1));
  PassHeader header = read_header(leaf_.next());
  header.pass = 77;
  transport::Message message = to_message(header, transport::MessageKind::kBackward);
  add_result({.loss = 1.0}, message);
  pack_tensors({at::ones({8, 4})}, message);
  backward_->send(message, kLong);
  EXPECT_THROW(cluster_.root().wait_until_idle(kLong), LocalFault);
  EXPECT_EQ(cluster_.root().status().loop.suspect, "node_1");
}

TEST(BadBatch, ChangesNeitherWeightsNorStatisticsAndIsNamed) {
  for (const std::vector<std::size_t>& cuts :
       {std::vector<std::size_t>{}, std::vector<std::size_t>{3}}) {
    SCOPED_TRACE(cuts.size());
    Notices notices;
    TestCluster cluster(cuts);
    for (std::size_t stage = cluster.size(); stage-- > 0;) {
      cluster.start(stage, stage == 0 ? notices.callbacks() : ProviderCallbacks{});
    }
    std::vector<Batch> batches = make_batches(3);
    batches[1].x[5][1] = std::numeric_limits<float>::quiet_NaN();
    cluster.train({batches[0]});
    ASSERT_TRUE(cluster.root().wait_until_idle(kLong));
    const engine::WeightMap before = cluster.root().weights();
    ASSERT_TRUE(before.contains("mean"));
    cluster.train({batches[1]});
    ASSERT_TRUE(cluster.root().wait_until_idle(kLong));
    expect_equal(cluster.root().weights(), before);
    const auto refused = notices.refused();
    ASSERT_EQ(refused.size(), 1U);
    EXPECT_NE(refused[0].text.find("its batch has numbers that are not finite"), std::string::npos)
        << refused[0].text;
    cluster.train({batches[2]});
    ASSERT_TRUE(cluster.root().wait_until_idle(kLong));
    EXPECT_FALSE(cluster.root().weights().at("mean").equal(before.at("mean")));
  }
}

// A leaf whose root is not what it should be.
class BadRoot : public testing::Test {
 protected:
  BadRoot() : cluster_({2}, {}, kTwoLayers), root_(cluster_, 0) {
    root_.hear(cluster_.peer(1), "backward");
    root_.pass_over(cluster_.peer(1), "results");
    forward_ = root_.open(cluster_.peer(1), "forward");
    inputs_ = root_.open(cluster_.peer(1), "inputs");
    cluster_.start(1, notices_.callbacks());
    begin(7);
  }

  void begin(std::int64_t generation) {
    generation_ = generation;
    forward_->send(to_message(Control{.word = Word::kRun, .generation = generation, .text = "run"}),
                   kLong);
  }

  void send(std::int64_t pass, at::Tensor values) {
    const PassHeader header{.pass = pass, .generation = generation_, .samples = 8};
    transport::Message target = to_message(header, transport::MessageKind::kForward);
    pack({at::ones({8, 4})}, target);
    inputs_->send(target, kLong);
    transport::Message message = to_message(header, transport::MessageKind::kForward);
    pack({values.set_requires_grad(true)}, message);
    forward_->send(message, kLong);
  }

  Notices notices_;
  TestCluster cluster_;
  Impostor root_;
  std::unique_ptr<transport::Sender> forward_;
  std::unique_ptr<transport::Sender> inputs_;
  std::int64_t generation_ = 0;
};

// Where all are started anew, one may hear the new root before its own end has come.
TEST_F(BadRoot, IsHeardByWhoeverComesInTheLeafsPlace) {
  send(0, at::ones({8, 4}));
  EXPECT_EQ(read_header(root_.next()).generation, 7);
  cluster_.leaf().stop(3, "another takes its place");
  EXPECT_TRUE(cluster_.leaf().wait_until_over(kLong));
  const auto received = [&] { return cluster_.leaf().status().loop.bytes_received; };
  const std::uint64_t before = received();
  begin(8);
  send(0, at::ones({8, 4}));
  const auto deadline = transport::deadline_in(kLong);
  while (received() < before + 2 * 8 * 4 * sizeof(float)) {  // both messages of the pass
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  cluster_.kill(1);
  cluster_.start(1, notices_.callbacks());
  EXPECT_EQ(read_header(root_.next()).generation, 8);
}

TEST_F(BadRoot, IsToldOfValuesThatAreNotNumbers) {
  send(0, at::ones({8, 4}));
  EXPECT_FALSE(read_header(root_.next()).is_refused);
  const at::Tensor before = cluster_.leaf().weights().at("b");
  at::Tensor values = at::ones({8, 4});
  values[0][0] = std::numeric_limits<float>::quiet_NaN();
  send(1, values);
  EXPECT_TRUE(read_header(root_.next()).is_refused);
  EXPECT_TRUE(cluster_.leaf().weights().at("b").equal(before));
  const auto refused = notices_.refused();
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].peer, "node_0");
  send(2, at::ones({8, 4}));
  EXPECT_FALSE(read_header(root_.next()).is_refused);
  EXPECT_FALSE(cluster_.leaf().weights().at("b").equal(before));
}

TEST_F(BadRoot, SendsAnInfinityThatMakesTheLossInfiniteAndNothingIsLearned) {
  send(0, at::ones({8, 4}));
  EXPECT_FALSE(read_header(root_.next()).is_refused);
  const at::Tensor before = cluster_.leaf().weights().at("b");
  send(1, at::full({8, 4}, std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(read_header(root_.next()).is_refused);
  EXPECT_TRUE(cluster_.leaf().weights().at("b").equal(before));
}

TEST_F(BadRoot, IsRefusedWithValuesOfAnotherShape) {
  send(0, at::ones({8, 4}));
  EXPECT_FALSE(read_header(root_.next()).is_refused);  // it runs
  send(1, at::ones({8, 3}));
  try {
    cluster_.leaf().wait_for_training(0, kLong);
    FAIL() << "went on";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what())
                  .find("'i' came as float32[8, 3], the plan has "
                        "float32[s0, 4]. node_0 sent it."),
              std::string::npos)
        << error.what();
  }
}

TEST_F(BadRoot, IsRefusedWithTooFewValues) {
  send(0, at::ones({8, 4}));
  EXPECT_FALSE(read_header(root_.next()).is_refused);  // it runs
  const PassHeader header{.pass = 1, .generation = generation_, .samples = 8};
  forward_->send(to_message(header, transport::MessageKind::kForward), kLong);
  EXPECT_THROW(cluster_.leaf().wait_for_training(0, kLong), LocalFault);
  EXPECT_EQ(cluster_.leaf().status().loop.suspect, "node_0");
}

TEST(Foreseen, BoundsWhatMayComeByThePlan) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const TestCluster cluster({2}, {}, kTwoLayers);
  const auto node = cluster.node(1);
  const Foreseen foreseen(node, package::read_stage(cluster.folder(), node));
  const auto small = foreseen.bounds(10, 64 * 1024 * kMiB);
  EXPECT_EQ(small.limits.tensor_bytes, 256 * kMiB);
  EXPECT_EQ(small.limits.message_bytes, 512 * kMiB);
  EXPECT_EQ(small.window, 10 * 512 * kMiB);
  EXPECT_LE(small.limits.held_bytes, 32 * 1024 * kMiB);
  EXPECT_EQ(foreseen.bounds(10, 4 * 1024 * kMiB).limits.held_bytes, 2 * 1024 * kMiB);
  // The root hears of outputs that its part of the model does not have.
  const auto root = cluster.node(0);
  EXPECT_EQ(Foreseen(root, package::read_stage(cluster.folder(), root))
                .bounds(10, 4 * 1024 * kMiB)
                .limits.tensor_bytes,
            transport::Limits().tensor_bytes);
}

// Averaged are float32, whatever they are kept as, with an optimizer's state and a momentum.
TEST(Foreseen, LeavesRoomForAllThatAMemberThatWasAwayIsGiven) {
  const TestCluster cluster({2}, {}, kTwoLayers);
  const auto node = cluster.node(1);
  graph::Stage stage = package::read_stage(cluster.folder(), node);
  constexpr std::size_t kNumbers = 20'000'000;
  ASSERT_FALSE(stage.program.weights.empty());
  stage.program.weights[0].type.dtype = graph::DType::kBFloat16;
  stage.program.weights[0].type.sizes = {static_cast<std::int64_t>(kNumbers)};
  const auto limits = Foreseen(node, stage).bounds(10, std::size_t{64} << 30).limits;
  EXPECT_GE(limits.tensor_bytes, 5 * sizeof(float) * kNumbers);
  EXPECT_GE(limits.message_bytes, 5 * sizeof(float) * kNumbers);
}

TEST(Foreseen, LeavesRoomForALargerBatch) {
  std::string model = kTwoLayers;
  const std::string hint = "symbol s0 = 8 ";
  model.replace(model.find(hint), hint.size(), "symbol s0 = 4000000 ");  // 64 MB a value
  const TestCluster cluster({2}, {}, model);
  const auto node = cluster.node(1);
  const auto limits = Foreseen(node, package::read_stage(cluster.folder(), node))
                          .bounds(10, std::size_t{64} << 30)
                          .limits;
  EXPECT_EQ(limits.tensor_bytes, 16U * 64'000'000U);
  EXPECT_EQ(limits.message_bytes, 16U * (64'000'000U + 4U));  // the outputs: a loss as well
}

}  // namespace
}  // namespace ravnest::provider
