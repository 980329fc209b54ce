// One stage's part in averaging, where the test says what the loop's thread does when.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>

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

// The only stage of a cluster.
class ByHand {
 public:
  ByHand(const std::shared_ptr<transport::LoopbackNetwork>& network, std::size_t cluster,
         const AveragingOptions& options)
      : node_(node_of(cluster)), batches_(make_batches(4)) {
    transport::TransportOptions own;
    own.name = "node_" + std::to_string(cluster);
    own.plan = "plan";
    transport_ = transport::make_loopback_transport(network, node_.address, own);
    averaging_ = std::make_unique<Averaging>(
        options, node_, *transport_,
        Averaging::Hooks{.post = [this](std::function<void()> task) { post(std::move(task)); },
                         .initial = [] { return engine::WeightMap{}; },
                         .on_changed = [] {},
                         .on_news = [](const AveragingNews&) {},
                         .on_notice = [this](const std::string& text,
                                             transport::NoticeKind kind) { note(text, kind); }});
    averaging_->begin(stage_, *rule_, Beginning::kAnew);
    if (cluster == 1) {
      std::ranges::reverse(batches_);  // it learns from others
    }
  }
  ~ByHand() { averaging_->stop(); }
  ByHand(const ByHand&) = delete;
  ByHand& operator=(const ByHand&) = delete;

  void learn() {
    const Batch& batch = batches_[static_cast<std::size_t>(passes_)];
    stage_.forward(passes_, {batch.x, batch.t});
    stage_.backward(passes_++, {at::ones({}), at::Tensor()});
    averaging_->on_update();
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
  bool is_held() const { return averaging_->hold().has_value(); }
  std::size_t waits() const { return waits_; }  // that were told
  engine::WeightMap weights() const { return stage_.snapshot(); }

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
  const std::unique_ptr<UpdateRule> rule_ =
      make_native_rule({.optimizer = "sgd", .optimizer_options = {{"lr", 0.05}}});
  const graph::Program program_ = make_model();
  engine::Stage stage_{engine::BoundProgram(program_),
                       {},
                       [this](const engine::GradientStep& step, engine::WeightVersions& weights) {
                         rule_->apply(step, weights);
                       }};
  std::int64_t passes_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::string notices_;
  std::size_t waits_ = 0;
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

}  // namespace
}  // namespace ravnest::provider
