// One stage's part in averaging, where the test says what the loop's thread does when.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>

#include "ravnest/provider/averaging.h"
#include "ravnest/transport/loopback/loopback.h"
#include "tests/provider/cluster.h"

namespace ravnest::provider {
namespace {

const std::vector<std::string> kAddresses{"here", "there"};

package::NodeConfig node_of(std::size_t cluster) {
  package::NodeConfig node;
  node.id = static_cast<std::int64_t>(cluster);
  node.address = kAddresses[cluster];
  node.cluster = cluster;
  node.clusters = kAddresses.size();
  node.rings = {{.id = 0,
                 .parameters = {"a", "c", "b"},
                 .buffers = {"mean", "var"},
                 .members = kAddresses,
                 .member_ids = {0, 1}}};
  return node;
}

std::unique_ptr<UpdateRule> make_sgd() {
  return make_native_rule({.optimizer = "sgd", .optimizer_options = {{"lr", 0.05}}});
}

struct Beginner {
  std::function<std::unique_ptr<UpdateRule>()> make_rule = make_sgd;
  Beginning beginning = Beginning::kAnew;
  std::int64_t updates = 0;  // that it has behind it
};

// The only stage of a cluster.
class ByHand {
 public:
  ByHand(const std::shared_ptr<transport::LoopbackNetwork>& network, std::size_t cluster,
         const AveragingOptions& options, const Beginner& beginner = {})
      : node_(node_of(cluster)),
        batches_(make_batches(4)),
        rule_(beginner.make_rule()),
        updates_(beginner.updates) {
    transport::TransportOptions own;
    own.name = "node_" + std::to_string(cluster);
    own.plan = "plan";
    transport_ = transport::make_loopback_transport(network, node_.address, own);
    averaging_ = std::make_unique<Averaging>(
        options, node_, *transport_,
        Averaging::Hooks{
            .post = [this](std::function<void()> task) { post(std::move(task)); },
            .on_changed = [] {},
            .on_news = [this](const AveragingNews& news) { sent_.push_back(news.nbytes); },
            .on_notice = [this](const std::string& text,
                                transport::NoticeKind kind) { note(text, kind); }});
    averaging_->begin(stage_, *rule_, beginner.beginning);
    if (cluster == 1) {
      std::ranges::reverse(batches_);  // it learns from others
    }
  }
  ~ByHand() { averaging_->stop(); }
  ByHand(const ByHand&) = delete;
  ByHand& operator=(const ByHand&) = delete;

  // From gradients that are multiplied by this.
  void learn(double scale = 1.0) {
    const Batch& batch = batches_[static_cast<std::size_t>(passes_) % batches_.size()];
    stage_.forward(passes_, {batch.x, batch.t});
    stage_.backward(passes_++, {at::full({}, scale), at::Tensor()});
    averaging_->on_update(++updates_);
  }
  // The next of what was posted to the loop, but for waits.
  void run_next() {
    for (std::size_t before = waits_; run_one(), waits_ > before;) {
      before = waits_;
    }
  }
  void run_one() {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      TestCluster::expect_in_time(changed_.wait_for(lock, kLong, [&] { return !tasks_.empty(); }));
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
  bool wait_for_notice(const std::string& part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] { return notices_.find(part) != std::string::npos; });
  }
  const std::vector<std::size_t>& sent() const { return sent_; }  // bytes, by averaging
  bool is_held() const { return averaging_->hold().has_value(); }
  std::size_t waits() const { return waits_; }  // that were told
  engine::WeightMap weights() const { return stage_.snapshot(); }
  // Copies, of all parameters.
  std::map<std::string, at::Tensor> rule_state() const {
    std::map<std::string, at::Tensor> copies;
    for (const auto& [key, tensor] : rule_->state().tensors) {
      copies.emplace(key, tensor.clone());
    }
    return copies;
  }

 private:
  void post(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  void note(const std::string& text, transport::NoticeKind kind) {
    const std::lock_guard lock(mutex_);
    waits_ += kind == transport::NoticeKind::kWaiting ? 1 : 0;
    notices_ += text + "\n";
    changed_.notify_all();
  }

  const package::NodeConfig node_;
  std::vector<Batch> batches_;
  const std::unique_ptr<UpdateRule> rule_;
  const graph::Program program_ = make_model();
  engine::Stage stage_{engine::BoundProgram(program_),
                       {},
                       [this](const engine::GradientStep& step, engine::WeightVersions& weights) {
                         rule_->apply(step, weights);
                       }};
  std::int64_t passes_ = 0;
  std::int64_t updates_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::string notices_;
  std::size_t waits_ = 0;
  std::vector<std::size_t> sent_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<Averaging> averaging_;  // last: its threads use the rest
};

AveragingOptions every_update(bool is_blocking) {
  AveragingOptions options;
  options.every = 1;
  options.is_blocking = is_blocking;
  return options;
}

AveragingOptions blocking() { return every_update(true); }

// The hold has an end, and the next offer of another part begins another.
TEST(AveragingByHand, WhatWasLearnedDuringARoundIsKept) {
  const auto network = transport::make_loopback_network();
  ByHand one(network, 0, blocking());
  ByHand other(network, 1, blocking());
  one.learn();
  other.learn();
  one.run_next();  // contributes
  other.run_next();
  const engine::WeightMap before = one.weights();
  const engine::WeightMap others = other.weights();
  one.learn();
  const engine::WeightMap learned = one.weights();
  one.run_next();  // takes the mean
  const engine::WeightMap after = one.weights();
  for (const char* name : {"a", "b", "c"}) {
    const at::Tensor mean = (before.at(name) + others.at(name)) / 2.0;
    const at::Tensor wanted = mean + learned.at(name) - before.at(name);
    EXPECT_FALSE(at::allclose(learned.at(name), before.at(name), 1e-4, 1e-5)) << name;
    EXPECT_TRUE(at::allclose(after.at(name), wanted, 1e-5, 1e-6)) << name;
  }
}

TEST(AveragingByHand, ARoundThatIsAbandonedLeavesTheWeightsAsTheyWere) {
  const auto network = transport::make_loopback_network();
  auto leader = std::make_unique<ByHand>(network, 0, blocking());
  ByHand one(network, 1, blocking());
  leader->learn();
  one.learn();
  const engine::WeightMap before = one.weights();
  one.run_next();  // contributes
  leader.reset();
  ASSERT_TRUE(one.wait_for_notice(" was abandoned: "));
  one.run_next();  // contributes to the next
  expect_equal(one.weights(), before);
}

TEST(AveragingByHand, AWaitIsToldOnlyWhereTrainingStandsStill) {
  for (const bool is_blocking : {false, true}) {
    const auto network = transport::make_loopback_network();
    ByHand one(network, 0, every_update(is_blocking));
    ByHand other(network, 1, every_update(is_blocking));
    one.learn();
    other.learn();
    one.run_next();  // contributes
    other.run_next();
    one.run_next();  // takes the mean
    const std::size_t before = one.waits();
    one.learn();
    EXPECT_EQ(one.is_held(), is_blocking);
    one.run_one();  // the ring waits for the other
    EXPECT_EQ(one.waits() > before, is_blocking);
  }
}

// Both learn, and take the mean.
void average(ByHand& one, ByHand& other, double scale = 1.0) {
  one.learn(scale);
  other.learn(scale);
  for (ByHand* each : {&one, &other, &one, &other}) {
    each->run_next();  // contributes, then takes the mean
  }
}

TEST(AveragingByHand, OnlyTheFirstAveragingOfAllIsWaitedForForEver) {
  const auto network = transport::make_loopback_network();
  AveragingOptions options;
  options.every = 2;
  options.streams = 2;
  ByHand one(network, 0, options);
  ByHand other(network, 1, options);
  average(one, other);
  one.learn();  // the other part's first is due
  EXPECT_FALSE(one.is_held());
}

TEST(AveragingByHand, StreamsSendAsMuchInSmallerParts) {
  std::vector<std::vector<std::size_t>> sent;
  for (const std::size_t streams : {1U, 3U}) {
    const auto network = transport::make_loopback_network();
    AveragingOptions options;
    options.every = 3;
    options.streams = streams;
    ByHand one(network, 0, options);
    ByHand other(network, 1, options);
    for (int update = 1; update <= 6; ++update) {
      one.learn();
      other.learn();
      if (streams > 1 || update % 3 == 0) {  // a part is due
        for (ByHand* each : {&one, &other, &one, &other}) {
          each->run_next();
        }
      }
    }
    sent.push_back(one.sent());
  }
  ASSERT_EQ(sent[0].size(), 2U);
  ASSERT_EQ(sent[1].size(), 6U);
  EXPECT_LE(2 * *std::ranges::max_element(sent[1]), *std::ranges::max_element(sent[0]));
  EXPECT_EQ(std::accumulate(sent[1].begin(), sent[1].end(), std::size_t{0}),
            sent[0][0] + sent[0][1]);
}

TEST(AveragingByHand, AStageThatWasStartedAgainIsInPhaseWithItsCluster) {
  AveragingOptions options;
  options.every = 4;
  for (const std::int64_t behind : {0, 5, 10}) {
    ByHand one(transport::make_loopback_network(), 0, options, {.updates = behind});
    for (std::int64_t number = behind + 1; number % 4 != 0; ++number) {
      one.learn();
      EXPECT_FALSE(one.is_held()) << number;
    }
    one.learn();
    EXPECT_TRUE(one.is_held()) << behind;
  }
}

// Moves one parameter far and another a little, at every update.
class DriftingRule : public UpdateRule {
 public:
  static constexpr double kLittle = 1e-3;
  explicit DriftingRule(double far) : far_(far) {}
  void apply(const engine::GradientStep&, engine::WeightVersions& weights) override {
    weights.update({"a", "b"},
                   [this](const std::string& name, const at::Tensor& value, at::Tensor& result) {
                     result.copy_(value + (name == "a" ? kLittle : far_));
                   });
  }
  void start_epoch() override {}
  double rate() const override { return 0.0; }
  RuleState state() const override { return {}; }
  void load_state(const RuleState&, const engine::WeightMap&) override {}

 private:
  const double far_;
};

class AveragingThrough : public testing::TestWithParam<const char*> {
 protected:
  static AveragingOptions options() {
    AveragingOptions options = blocking();
    options.codec = transport::parse_codec(GetParam());
    return options;
  }
};

TEST_P(AveragingThrough, ACodecWhatIsLittleBesideTheRestIsLearned) {
  const auto network = transport::make_loopback_network();
  const Beginner drifting{.make_rule = [] { return std::make_unique<DriftingRule>(1.0); }};
  ByHand one(network, 0, options(), drifting);
  ByHand other(network, 1, options(), drifting);
  const engine::WeightMap before = one.weights();
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    average(one, other);
    expect_equal(one.weights(), other.weights());
  }
  const double little = kRounds * DriftingRule::kLittle;
  EXPECT_TRUE(at::allclose(one.weights().at("a"), before.at("a") + little, 0.0, 0.2 * little));
  EXPECT_TRUE(at::allclose(one.weights().at("b"), before.at("b") + kRounds, 0.0, 0.05));
}

// What the weights moved since the plan's beginning is then no difference to round.
TEST_P(AveragingThrough, ACodecTheFirstMeanIsExact) {
  const auto network = transport::make_loopback_network();
  const auto far_by = [](double far) {
    return Beginner{.make_rule = [far] { return std::make_unique<DriftingRule>(far); },
                    .beginning = Beginning::kGoesOn};
  };
  ByHand one(network, 0, options(), far_by(700.0));
  ByHand other(network, 1, options(), far_by(-100.0));
  const engine::WeightMap before = one.weights();
  average(one, other);
  expect_equal(one.weights(), other.weights());
  EXPECT_TRUE(at::allclose(one.weights().at("a"), before.at("a") + 1e-3, 0.0, 1e-6));
  EXPECT_TRUE(at::allclose(one.weights().at("b"), before.at("b") + 300.0, 0.0, 1e-4));
}

TEST_P(AveragingThrough, ACodecTheOptimizersStateIsTheExactMean) {
  const auto network = transport::make_loopback_network();
  AveragingOptions coded = options();
  coded.with_rule = true;
  AveragingOptions plain = coded;
  plain.codec = {};
  const Beginner adam{.make_rule = [] {
    return make_native_rule({.optimizer = "adam", .optimizer_options = {{"lr", 1e-3}}});
  }};
  ByHand one(network, 0, coded, adam);
  ByHand other(network, 1, coded, adam);
  const auto beside = transport::make_loopback_network();
  ByHand exact(beside, 0, plain, adam);
  ByHand exact_other(beside, 1, plain, adam);
  for (int round = 0; round < 12; ++round) {  // squares of gradients: 1e-9 and less
    average(one, other, 1e-4);
    average(exact, exact_other, 1e-4);
    const auto state = one.rule_state();
    const auto wanted = exact.rule_state();
    std::size_t squares = 0;
    for (const auto& [key, tensor] : state) {
      if (key.find("exp_avg_sq") != std::string::npos) {
        ++squares;
        EXPECT_TRUE(tensor.gt(0.0).all().item<bool>()) << key;
        EXPECT_TRUE(at::allclose(tensor, wanted.at(key), 0.05, 0.0)) << key;
        EXPECT_TRUE(at::equal(tensor, other.rule_state().at(key))) << key;
      }
    }
    EXPECT_EQ(squares, 3U);
  }
  // No step was longer than the rate has it: a tenth of the way at most is the codec's.
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_TRUE(at::allclose(one.weights().at(name), exact.weights().at(name), 0.0, 1.2e-3))
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, AveragingThrough, testing::Values("fp16", "bf16", "int8"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace ravnest::provider
