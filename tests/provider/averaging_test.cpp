// Clusters that average: of different lengths, cut at different places.

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "ravnest/provider/checkpoint.h"
#include "ravnest/provider/requester.h"
#include "tests/provider/cluster.h"

namespace ravnest::provider {
namespace {

constexpr Milliseconds kLonger{30'000};

using ClusterCuts = std::vector<std::vector<std::size_t>>;  // of each cluster

// Three stages and two. The parameters are first used by the ops 0, 2 and 3, the buffers by op 2.
const ClusterCuts kCuts{{2, 4}, {3}};
const std::vector<std::pair<std::string, std::size_t>> kUses{{"a", 0}, {"c", 2}, {"b", 3}};
constexpr std::size_t kBatchNorm = 2;

std::size_t stage_of(const std::vector<std::size_t>& cuts, std::size_t op) {
  return static_cast<std::size_t>(std::ranges::upper_bound(cuts, op) - cuts.begin());
}

planner::Plan make_plan_of(const ClusterCuts& all_cuts, const graph::Program& program) {
  planner::Plan plan;
  for (const auto& cuts : all_cuts) {
    planner::Plan one = make_plan(program, cuts);
    for (planner::Stage& stage : one.clusters[0].stages) {
      stage.machine += plan.pool.size();
    }
    for (planner::Machine machine : one.pool) {
      machine.id = static_cast<std::int64_t>(plan.pool.size());
      plan.pool.push_back(machine);
    }
    plan.clusters.push_back(one.clusters[0]);
  }
  std::map<std::vector<std::size_t>, planner::Ring> rings;  // by their holders
  for (const auto& [name, op] : kUses) {
    std::vector<std::size_t> holders;
    for (const auto& cuts : all_cuts) {
      holders.push_back(stage_of(cuts, op));
    }
    planner::Ring& ring = rings[holders];
    ring.holders = holders;
    ring.parameters.push_back(name);
    ring.nbytes += 4;
    if (op == kBatchNorm) {
      ring.buffers = {"mean", "var"};
    }
  }
  for (auto& [holders, ring] : rings) {
    ring.id = plan.rings.size();
    plan.rings.push_back(ring);
  }
  return plan;
}

// The providers of both, in this process.
class TwoClusters {
 public:
  explicit TwoClusters(ProviderOptions options, const ClusterCuts& all_cuts = kCuts,
                       graph::Program program = make_model())
      : program_(std::move(program)) {
    package::write_plan(program_, make_plan_of(all_cuts, program_), folder_.path());
    options_ = std::move(options);
    options_.node_data = folder_.path();
    if (!options_.make_rule) {
      options_.make_rule = [] {
        return make_native_rule({.optimizer = "sgd", .optimizer_options = {{"lr", 0.05}}});
      };
    }
    for (const auto& cuts : all_cuts) {
      clusters_.emplace_back(cuts.size() + 1);
    }
  }

  void start(std::size_t cluster) {
    for (std::size_t stage = 0; stage < clusters_[cluster].size(); ++stage) {
      ProviderOptions options = options_;
      const std::size_t id = cluster * clusters_[0].size() + stage;
      options.name = "node_" + std::to_string(id);
      ProviderCallbacks callbacks;
      callbacks.on_notice = [this](const transport::Notice& notice) { note(notice.text); };
      callbacks.on_averaged = [this](const AveragingNews& news) { note(news); };
      if (adjust) {
        adjust(cluster, options, callbacks);
      }
      clusters_[cluster][stage] = std::make_unique<Provider>(options, std::move(callbacks));
      clusters_[cluster][stage]->start();
    }
  }
  void start() {
    start(1);
    start(0);
  }
  std::function<void(std::size_t cluster, ProviderOptions&, ProviderCallbacks&)> adjust;
  Provider& root(std::size_t cluster) { return *clusters_[cluster][0]; }
  std::vector<package::NodeConfig> nodes(std::size_t cluster) const {
    std::vector<package::NodeConfig> nodes;
    for (const auto& provider : clusters_[cluster]) {
      nodes.push_back(provider->node());
    }
    return nodes;
  }
  const std::filesystem::path& folder() const { return folder_.path(); }
  void kill(std::size_t cluster) {
    for (auto& provider : clusters_[cluster]) {
      provider.reset();
    }
  }

  void submit(std::size_t cluster, const Batch& batch, std::int64_t epoch = 0) {
    TestCluster::expect_in_time(root(cluster).submit(
        {.purpose = Purpose::kTrain, .epoch = epoch, .samples = batch.x.size(0)},
        {batch.x, batch.t}, kLonger));
  }
  void train(const std::vector<Batch>& first, const std::vector<Batch>& second) {
    for (std::size_t i = 0; i < first.size(); ++i) {
      submit(0, first[i]);
      submit(1, second[i]);
    }
  }
  void end_training(const std::vector<std::size_t>& clusters = {0, 1}) {
    for (const std::size_t cluster : clusters) {
      root(cluster).end_training();
    }
    wait_for_end(clusters);
  }
  // At every stage: each ends with an averaging of its own.
  void wait_for_end(const std::vector<std::size_t>& clusters) {
    for (const std::size_t cluster : clusters) {
      for (auto& provider : clusters_[cluster]) {
        TestCluster::expect_in_time(provider->wait_for_training(0, kLonger) == 1);
      }
    }
  }
  void close(const std::vector<std::size_t>& clusters = {0, 1}) {
    for (const std::size_t cluster : clusters) {
      for (auto& provider : clusters_[cluster]) {
        provider->close(Milliseconds(5000));
      }
    }
  }
  // Of all stages; copies must be what they are copies of.
  engine::WeightMap weights(std::size_t cluster) {
    engine::WeightMap all;
    for (auto& provider : clusters_[cluster]) {
      for (const auto& [name, tensor] : provider->weights()) {
        const auto [place, is_new] = all.emplace(name, tensor);
        EXPECT_TRUE(is_new || at::equal(place->second, tensor)) << name;
      }
    }
    return all;
  }

  // At the first stage that has it, whatever others have by now.
  at::Tensor weight(std::size_t cluster, const std::string& name) {
    for (auto& provider : clusters_[cluster]) {
      if (const auto weights = provider->weights(); weights.contains(name)) {
        return weights.at(name);
      }
    }
    throw std::invalid_argument(name);
  }

  bool wait_for_notice(const std::string& part, std::ptrdiff_t count = 1) {
    std::unique_lock lock(mutex_);
    const auto has_part = [&](const std::string& text) {
      return text.find(part) != std::string::npos;
    };
    return changed_.wait_for(lock, kLonger,
                             [&] { return std::ranges::count_if(notices_, has_part) >= count; });
  }
  bool wait_for_averages(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLonger, [&] { return news_.size() >= count; });
  }
  std::vector<AveragingNews> news() {
    const std::lock_guard lock(mutex_);
    return news_;
  }
  const graph::Program& program() const { return program_; }

 private:
  void note(const std::string& text) {
    const std::lock_guard lock(mutex_);
    notices_.push_back(text);
    changed_.notify_all();
  }
  void note(const AveragingNews& news) {
    const std::lock_guard lock(mutex_);
    news_.push_back(news);
    changed_.notify_all();
  }

  TemporaryFolder folder_;
  graph::Program program_;
  ProviderOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> notices_;
  std::vector<AveragingNews> news_;
  std::vector<std::vector<std::unique_ptr<Provider>>> clusters_;
};

// The same training in one process, with plain autograd.
engine::WeightMap train_here(const graph::Program& program, const std::vector<Batch>& batches) {
  engine::WeightMap weights;
  const engine::BoundProgram given(program);
  for (const auto& [name, tensor] : given.weights()) {
    weights.emplace(name, tensor.detach().clone().set_requires_grad(tensor.requires_grad()));
  }
  for (const Batch& batch : batches) {
    const auto outputs = given.run_with(weights, {batch.x, batch.t}, engine::Mode::kTrain);
    outputs[0].toTensor().backward();
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : weights) {
      if (tensor.requires_grad()) {
        at::Tensor(tensor).sub_(tensor.grad(), 0.05);
        tensor.mutable_grad().reset();
      }
    }
  }
  return weights;
}

std::pair<std::vector<Batch>, std::vector<Batch>> two_halves(std::size_t count) {
  const std::vector<Batch> all = make_batches(2 * count);
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(count);
  return {{all.begin(), middle}, {middle, all.end()}};
}

ProviderOptions every(std::int64_t updates, bool is_blocking = false) {
  ProviderOptions options{.schedule = Schedule::kSync};
  options.averaging.every = updates;
  options.averaging.is_blocking = is_blocking;
  return options;
}

TEST(Averaging, EndsWithTheMeanOfAllClusters) {
  TwoClusters clusters(every(1000));
  clusters.start();
  const auto [first, second] = two_halves(10);
  clusters.train(first, second);
  clusters.end_training();
  const engine::WeightMap one = train_here(clusters.program(), first);
  const engine::WeightMap other = train_here(clusters.program(), second);
  const engine::WeightMap found = clusters.weights(0);
  expect_equal(clusters.weights(1), found);
  for (const auto& [name, tensor] : found) {
    EXPECT_TRUE(at::allclose(tensor, (one.at(name) + other.at(name)) / 2.0, 1e-5, 1e-6)) << name;
  }
  clusters.close();
}

TEST(Averaging, ValuesThatAreNotFiniteDoNotHoldUpTheEnd) {
  TwoClusters clusters(every(1000));
  clusters.adjust = [](std::size_t cluster, ProviderOptions& options, ProviderCallbacks&) {
    if (cluster == 1) {
      options.make_rule = [] {
        return make_native_rule({.optimizer = "sgd", .optimizer_options = {{"lr", 3e38}}});
      };
    }
  };
  clusters.start();
  const auto [first, second] = two_halves(6);
  clusters.train(first, second);
  clusters.end_training();
  EXPECT_TRUE(clusters.wait_for_notice("values that are not finite"));
  // The other ends with what it had, or with ours, by who found out first.
  for (const auto& [name, tensor] : clusters.weights(0)) {
    EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
  }
  clusters.close();
}

// Makes a running mean no number, once.
class SpoilingRule : public UpdateRule {
 public:
  explicit SpoilingRule(std::int64_t when) : when_(when) {}
  void apply(const engine::GradientStep& step, engine::WeightVersions& weights) override {
    inner_->apply(step, weights);
    if (++updates_ == when_) {
      weights.current()->weights.at("mean").variable_data().fill_(NAN);
    }
  }
  void start_epoch() override {}
  double rate() const override { return inner_->rate(); }
  RuleState state() const override { return inner_->state(); }
  void load_state(const RuleState& state, const engine::WeightMap& parameters) override {
    inner_->load_state(state, parameters);
  }

 private:
  const std::unique_ptr<UpdateRule> inner_ =
      make_native_rule({.optimizer = "sgd", .optimizer_options = {{"lr", 0.05}}});
  const std::int64_t when_;
  std::int64_t updates_ = 0;
};

class Spoilt : public testing::TestWithParam<std::tuple<std::int64_t, bool>> {};

TEST_P(Spoilt, AClusterIsMendedByTheOthersAndTakesPartAgain) {
  const auto [when, is_nesterov] = GetParam();
  ProviderOptions options = every(2, true);
  options.averaging.outer.is_nesterov = is_nesterov;
  TwoClusters clusters(options, {{}, {}});
  clusters.adjust = [at = when](std::size_t cluster, ProviderOptions& each, ProviderCallbacks&) {
    if (cluster == 1) {
      each.make_rule = [at] { return std::make_unique<SpoilingRule>(at); };
    }
  };
  clusters.start();
  const auto [first, second] = two_halves(12);
  clusters.train(first, second);
  if (when == 5) {  // found at the averaging that the training ends with, which would not wait
    ASSERT_TRUE(clusters.wait_for_notice("takes the values of averaging"));
  }
  clusters.end_training();
  const engine::WeightMap found = clusters.weights(0);
  for (const auto& [name, tensor] : found) {
    EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
  }
  expect_equal(clusters.weights(1), found);
  EXPECT_EQ(clusters.news().back().members.size(), 2U);
  clusters.close();
}

// Before the first averaging, and between two.
INSTANTIATE_TEST_SUITE_P(Averaging, Spoilt,
                         testing::Combine(testing::Values(1, 5), testing::Bool()));

struct Way {
  std::string name;
  ProviderOptions options;
};

class Ways : public testing::TestWithParam<Way> {};

TEST_P(Ways, EndTheSameOnAllClusters) {
  TwoClusters clusters(GetParam().options);
  clusters.start();
  const auto [first, second] = two_halves(24);
  clusters.train(first, second);
  clusters.end_training();
  expect_equal(clusters.weights(1), clusters.weights(0));
  std::size_t both = 0;
  for (const AveragingNews& news : clusters.news()) {
    both += news.members.size() == 2 && !news.is_final ? 1 : 0;
  }
  EXPECT_GT(both, 0U);
  clusters.close();
}

std::vector<Way> make_ways() {
  std::vector<Way> ways{{"Overlapped", every(3)}, {"Blocking", every(3, true)}};
  ways.push_back({"Asynchronous", every(3)});
  ways.back().options.schedule = Schedule::kAsync;
  ways.push_back({"Nesterov", every(4)});
  ways.back().options.averaging.outer.is_nesterov = true;
  ways.push_back({"Streamed", every(4)});
  ways.back().options.averaging.streams = 3;
  ways.push_back({"StreamedNesterov", every(4)});
  ways.back().options.averaging.streams = 3;
  ways.back().options.averaging.outer.is_nesterov = true;
  ways.push_back({"InEightBits", every(3)});
  ways.back().options.averaging.codec = transport::parse_codec("int8");
  ways.push_back({"ThroughGloo", every(3)});
  ways.back().options.averaging.is_gloo = true;
  ways.push_back({"WithTheOptimizer", every(3)});
  ways.back().options.averaging.with_rule = true;
  return ways;
}

INSTANTIATE_TEST_SUITE_P(Averaging, Ways, testing::ValuesIn(make_ways()),
                         [](const auto& way) { return way.param.name; });

TEST(Averaging, MomentumLeavesStatisticsWhereTheyWereMeasured) {
  ProviderOptions options = every(2, true);
  options.averaging.outer.is_nesterov = true;
  TwoClusters clusters(options);
  clusters.start();
  auto [first, second] = two_halves(40);
  for (std::size_t i = 0; i < first.size(); ++i) {
    // From wide to narrow: carried on, a variance would fall below zero.
    const double width = i < 8 ? 3.0 : 0.05;
    first[i].x = first[i].x * width;
    second[i].x = second[i].x * width;
    clusters.train({first[i]}, {second[i]});
    for (const std::size_t cluster : {0U, 1U}) {
      TestCluster::expect_in_time(clusters.root(cluster).wait_until_idle(kLonger));
      EXPECT_GE(clusters.weight(cluster, "var").min().item<float>(), 0.0F) << i;
    }
  }
  clusters.end_training();
  expect_equal(clusters.weights(1), clusters.weights(0));
  clusters.close();
}

TEST(Averaging, WaitsForALateClusterAtTheFirstOneAndSaysSo) {
  TwoClusters clusters(every(2));
  clusters.start(0);
  const auto [first, second] = two_halves(6);
  clusters.submit(0, first[0]);
  clusters.submit(0, first[1]);
  EXPECT_TRUE(clusters.wait_for_notice(" waits for node_3 to average"));
  EXPECT_TRUE(clusters.news().empty());
  clusters.start(1);
  for (std::size_t i = 0; i < 6; ++i) {
    clusters.submit(1, second[i]);
  }
  for (std::size_t i = 2; i < 6; ++i) {
    clusters.submit(0, first[i]);
  }
  clusters.end_training();
  expect_equal(clusters.weights(1), clusters.weights(0));
  clusters.close();
}

TEST(Averaging, GoesOnWithoutAClusterThatIsLost) {
  TwoClusters clusters(every(2));
  clusters.start();
  const auto [first, second] = two_halves(8);
  for (std::size_t i = 0; i < 2; ++i) {
    clusters.submit(0, first[i]);
    clusters.submit(1, second[i]);
  }
  TestCluster::expect_in_time(clusters.wait_for_averages(6));  // of each holder, in each ring
  clusters.kill(1);
  for (std::size_t i = 2; i < 8; ++i) {
    clusters.submit(0, first[i]);
  }
  clusters.end_training({0});
  EXPECT_TRUE(clusters.wait_for_notice(" is lost; averaging goes on without it"));
  clusters.close({0});
}

ProviderOptions with_nesterov(ProviderOptions options) {
  options.averaging.outer.is_nesterov = true;
  return options;
}

ProviderOptions in_eight_bits(ProviderOptions options) {
  options.averaging.codec = transport::parse_codec("int8");
  return options;
}

constexpr const char* kCatchesUp = "takes the values of averaging";
constexpr std::size_t kRings = 3;  // of two members each

class ComingBack : public testing::TestWithParam<ProviderOptions> {};

TEST_P(ComingBack, EndsWithTheWeightsOfTheOthers) {
  TwoClusters clusters(GetParam());
  clusters.start();
  const auto [first, second] = two_halves(6);
  clusters.train(first, second);
  TestCluster::expect_in_time(clusters.wait_for_averages(3 * 2 * kRings));
  clusters.kill(1);
  clusters.start(1);
  EXPECT_TRUE(clusters.wait_for_notice(kCatchesUp, kRings));
  clusters.train(second, first);
  clusters.end_training();
  expect_equal(clusters.weights(1), clusters.weights(0));
  clusters.close();
}

TEST_P(ComingBack, OneAfterTheOtherTheyAverageAgain) {
  TwoClusters clusters(GetParam());
  clusters.start();
  const auto [first, second] = two_halves(4);
  clusters.train(first, second);
  TestCluster::expect_in_time(clusters.wait_for_averages(2 * 2 * kRings));
  clusters.kill(1);
  clusters.start(1);
  EXPECT_TRUE(clusters.wait_for_notice(kCatchesUp, kRings));
  clusters.kill(0);
  clusters.start(0);
  EXPECT_TRUE(clusters.wait_for_notice(kCatchesUp, 2 * kRings));
  clusters.train(second, first);
  EXPECT_TRUE(clusters.wait_for_averages(3 * 2 * kRings)) << "no round after both came back";
  clusters.end_training();
  expect_equal(clusters.weights(1), clusters.weights(0));
  clusters.close();
}

INSTANTIATE_TEST_SUITE_P(Averaging, ComingBack,
                         testing::Values(every(2, true), with_nesterov(every(2, true)),
                                         in_eight_bits(every(2, true)),
                                         in_eight_bits(with_nesterov(every(2, true)))));

TEST(Averaging, AfterARestartOfAllTheFirstOneIsTheMean) {
  constexpr std::size_t kBefore = 6;
  ProviderOptions options = with_nesterov(every(1000, true));
  options.checkpoint_every = kBefore;
  TwoClusters clusters(options);
  clusters.start();
  const auto [first, second] = two_halves(kBefore + 2);
  const auto some = static_cast<std::ptrdiff_t>(kBefore);
  clusters.train({first.begin(), first.begin() + some}, {second.begin(), second.begin() + some});
  for (const std::size_t cluster : {0U, 1U}) {
    TestCluster::expect_in_time(clusters.root(cluster).wait_until_idle(kLonger));
  }
  clusters.kill(0);
  clusters.kill(1);
  clusters.adjust = [](std::size_t, ProviderOptions& each, ProviderCallbacks&) {
    each.averaging.every = 2;
  };
  clusters.start();
  clusters.train(first, second);  // a script that is started again begins at its beginning
  TestCluster::expect_in_time(clusters.wait_for_averages(2 * kRings));
  for (const std::size_t cluster : {0U, 1U}) {
    EXPECT_EQ(clusters.root(cluster).status().resumed, static_cast<std::int64_t>(kBefore));
  }
  const engine::WeightMap one = train_here(clusters.program(), first);
  const engine::WeightMap other = train_here(clusters.program(), second);
  for (const auto& [name, tensor] : one) {
    const at::Tensor mean = (tensor + other.at(name)) / 2.0;
    EXPECT_TRUE(at::allclose(clusters.weight(0, name), mean, 1e-5, 1e-6)) << name;
  }
  clusters.end_training();
  clusters.close();
}

// What each cluster's one stage did, in turn: "L" learned from a batch, "A" averaged a part.
std::vector<std::string> follow_streams(ProviderOptions options,
                                        const std::vector<std::int64_t>& epochs) {
  options.averaging.streams = 2;
  options.averaging.is_blocking = true;
  options.averaging.patience = kLonger;
  TwoClusters clusters(std::move(options), {{}, {}});
  std::vector<std::string> done(2);
  clusters.adjust = [&](std::size_t cluster, ProviderOptions&, ProviderCallbacks& callbacks) {
    callbacks.on_learned = [&done, cluster](const PassHeader&, const PassResult&) {
      done[cluster] += "L";
    };
    callbacks.on_averaged = [&done, cluster](const AveragingNews& news) {
      done[cluster] += news.is_final ? "" : "A";
    };
  };
  clusters.start();
  const auto [first, second] = two_halves(epochs.size());
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    clusters.submit(0, first[i], epochs[i]);
    clusters.submit(1, second[i], epochs[i]);
  }
  clusters.end_training();
  expect_equal(clusters.weights(1), clusters.weights(0));
  clusters.close();
  return done;
}

TEST(Averaging, StreamsTakeTurnsBetweenTwoAveragings) {
  const auto done = follow_streams(every(4), std::vector<std::int64_t>(9));
  EXPECT_EQ(done, std::vector<std::string>(2, "LLALLALLALLAL"));
}

// More of them than a provider takes connections of strangers from one machine.
TEST(Averaging, OfManyStreamsFindsRoomForTheirConnections) {
  constexpr std::int64_t kWidth = 32;
  std::string text = kModel;
  for (const auto& [narrow, wide] : std::map<std::string, std::string>{
           {"[4, 4]", "[32, 32]"}, {"[4]", "[32]"}, {"[s0, 4]", "[s0, 32]"}}) {
    for (std::size_t at = text.find(narrow); at != std::string::npos; at = text.find(narrow)) {
      text.replace(at, narrow.size(), wide);
    }
  }
  ProviderOptions options = every(1000);
  options.averaging.streams = 48;
  TwoClusters clusters(options, {{}, {}}, make_model(text, kWidth));
  clusters.start();
  const Batch batch{.x = at::randn({8, kWidth}), .t = at::randn({8, kWidth})};
  clusters.train({batch}, {batch});
  clusters.end_training();
  EXPECT_EQ(clusters.news().size(), 2 * options.averaging.streams);
  expect_equal(clusters.weights(1), clusters.weights(0));
  clusters.close();
}

// The first is offered when the epoch's first batch is there already.
TEST(Averaging, StreamsOfAnEpochAreSpreadOverTheNext) {
  const auto done = follow_streams({.schedule = Schedule::kSync}, {0, 0, 0, 0, 1, 1, 1, 2, 2, 2});
  EXPECT_EQ(done, std::vector<std::string>(2, "LLLLLALALLALAL"));
}

// What the optimizers of both clusters keep after a training, by parameter and slot.
std::vector<std::map<std::string, at::Tensor>> states_after_training(
    bool with_rule, const std::pair<std::vector<Batch>, std::vector<Batch>>& batches) {
  ProviderOptions options = every(1000);
  options.averaging.with_rule = with_rule;
  options.checkpoint_every = 1000;  // and at the end
  options.make_rule = [] {
    return make_native_rule({.optimizer = "adam", .optimizer_options = {{"lr", 0.05}}});
  };
  TwoClusters clusters(options);
  clusters.start();
  clusters.train(batches.first, batches.second);
  clusters.end_training();
  std::vector<std::map<std::string, at::Tensor>> states(2);
  for (const std::size_t cluster : {0U, 1U}) {
    for (const package::NodeConfig& node : clusters.nodes(cluster)) {
      const auto kept = read_checkpoint(checkpoint_path(clusters.folder(), node));
      states[cluster].insert(kept->rule.tensors.begin(), kept->rule.tensors.end());
    }
  }
  clusters.close();
  return states;
}

TEST(Averaging, AveragesTheMomentsOfAdam) {
  const auto batches = two_halves(5);
  const auto apart = states_after_training(false, batches);
  const auto together = states_after_training(true, batches);
  std::size_t moments = 0;
  for (const auto& [name, tensor] : apart[0]) {
    if (!name.starts_with("exp_avg")) {
      continue;
    }
    ++moments;
    const at::Tensor mean = (tensor + apart[1].at(name)) / 2.0;
    EXPECT_FALSE(at::allclose(tensor, mean)) << name;
    EXPECT_TRUE(at::allclose(together[0].at(name), mean, 1e-5, 1e-9)) << name;
    EXPECT_TRUE(at::equal(together[0].at(name), together[1].at(name))) << name;
  }
  EXPECT_EQ(moments, 6U);  // two of each parameter
}

// Updates that are not finite are skipped: an optimizer may have kept nothing by the first round.
TEST(Averaging, MomentsThatAreNotThereYetAreZeros) {
  auto batches = two_halves(3);
  for (Batch& batch : batches.second) {
    batch.t = at::full_like(batch.t, NAN);
  }
  const auto apart = states_after_training(false, batches);
  const auto together = states_after_training(true, batches);
  std::size_t moments = 0;
  for (const auto& [name, tensor] : apart[0]) {
    ASSERT_FALSE(apart[1].contains(name)) << name;
    if (name.starts_with("exp_avg")) {
      ++moments;
      EXPECT_TRUE(at::allclose(together[0].at(name), tensor / 2.0, 1e-5, 1e-9)) << name;
    }
  }
  EXPECT_EQ(moments, 6U);
}

TEST(Averaging, ASecondTrainingAveragesAgain) {
  TwoClusters clusters(every(2));
  clusters.start();
  const auto [first, second] = two_halves(4);
  clusters.train(first, second);
  clusters.end_training();
  const std::size_t before = clusters.news().size();
  clusters.train(second, first);
  for (const std::size_t cluster : {0U, 1U}) {
    clusters.root(cluster).end_training();
  }
  for (const std::size_t cluster : {0U, 1U}) {
    TestCluster::expect_in_time(clusters.root(cluster).wait_for_training(1, kLonger) == 2);
  }
  clusters.close();
  EXPECT_GT(clusters.news().size(), before);
}

TEST(Averaging, ClustersThatWouldAverageInOtherWaysAreBothRefused) {
  const std::vector<std::function<void(AveragingOptions&)>> others{
      [](AveragingOptions& each) { each.outer.is_nesterov = true; },
      [](AveragingOptions& each) { each.codec = transport::parse_codec("int8"); },
      [](AveragingOptions& each) { each.streams = 2; },
      [](AveragingOptions& each) { each.with_rule = true; },
      [](AveragingOptions& each) { each.is_gloo = true; }};
  for (std::size_t index = 0; index < others.size(); ++index) {
    SCOPED_TRACE(index);
    TwoClusters clusters(every(1), {{}, {}});
    clusters.adjust = [&](std::size_t cluster, ProviderOptions& each, ProviderCallbacks&) {
      if (cluster == 1) {
        others[index](each.averaging);
      }
    };
    clusters.start();
    const Batch batch = make_batches(1)[0];
    for (const std::size_t cluster : {0U, 1U}) {
      try {
        clusters.submit(cluster, batch);
      } catch (const std::invalid_argument&) {  // it has ended already
      }
    }
    for (const std::size_t cluster : {0U, 1U}) {
      try {
        clusters.root(cluster).wait_for_training(0, kLonger);
        ADD_FAILURE() << "node_" << cluster << " went on";
      } catch (const std::invalid_argument& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("node_0"), std::string::npos) << text;
        EXPECT_NE(text.find("node_1"), std::string::npos) << text;
        EXPECT_NE(text.find("average in the same way"), std::string::npos) << text;
      }
    }
  }
}

TEST(Averaging, RefusesWordsThatAreNone) {
  EXPECT_THROW(to_options({.averaging = "sometimes"}), std::invalid_argument);
  EXPECT_THROW(to_options({.codec = "int7"}), std::invalid_argument);
  EXPECT_THROW(to_options({.robust = "median"}), std::invalid_argument);
  EXPECT_THROW(to_options({.outer = "adam"}), std::invalid_argument);
  EXPECT_THROW(to_options({.streams = 0}), std::invalid_argument);
  EXPECT_THROW(to_options({.streams = 65}), std::invalid_argument);
  EXPECT_THROW(to_options({.patience = -1.0}), std::invalid_argument);
  EXPECT_THROW(to_options({.patience = 0.0}), std::invalid_argument);  // it would never be enough
  EXPECT_FALSE(to_options({}).every);
  EXPECT_EQ(to_options({.every = 8}).every, 8);
}

struct Joining {
  bool with_rule = false;
  std::string codec = "none";
  bool is_nesterov = false;
  std::size_t update_frequency = 1;
  std::int64_t learned_from = 6;  // the first pass
};
class JoiningARun : public testing::TestWithParam<Joining> {};

// The passes of a cluster that takes its weights from another begin where the requester is.
TEST_P(JoiningARun, LearnsFromTheWeightsOfOthersOn) {
  ProviderOptions options;
  options.update_frequency = GetParam().update_frequency;
  options.averaging.every = 1000;
  options.averaging.with_rule = GetParam().with_rule;
  options.averaging.codec = transport::parse_codec(GetParam().codec);
  options.averaging.outer.is_nesterov = GetParam().is_nesterov;
  options.job = "job_1";
  options.make_rule = [] {
    return make_native_rule({.optimizer = "adam", .optimizer_options = {{"lr", 0.05}}});
  };
  TwoClusters clusters(options);
  const auto batches = make_batches(14);
  clusters.start(0);
  for (std::size_t i = 0; i < 8; ++i) {
    clusters.submit(0, batches[i]);
  }
  ASSERT_TRUE(clusters.root(0).wait_until_idle(kLonger));
  engine::BoundProgram trained(clusters.program());
  {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : trained.weights()) {
      at::Tensor(tensor).copy_(clusters.weight(0, name));
    }
  }
  const Batch& first = batches[8];
  const double expected =
      trained.run({first.x, first.t}, engine::Mode::kTrain)[0].toTensor().item<double>();

  const auto root = package::read_node(clusters.folder(), "node_3");
  std::map<std::int64_t, double> losses;
  RequesterOptions requester_options;
  requester_options.plan = options.job;
  requester_options.root = {.name = "node_3", .address = root.address};
  requester_options.on_result = [&](const PassHeader& header, const PassResult& result) {
    losses[header.pass] = result.loss;
  };
  Requester requester(requester_options);
  requester.start_at(6);
  clusters.adjust = [&](std::size_t, ProviderOptions& each, ProviderCallbacks&) {
    each.from_ring = true;
    each.requester = {.name = "requester", .address = requester.address()};
  };
  clusters.start(1);
  for (std::size_t i = 8; i < batches.size(); ++i) {
    ASSERT_TRUE(requester.submit({.samples = 8}, {batches[i].x, batches[i].t}, kLonger));
  }
  requester.end_training();
  clusters.root(0).end_training();
  ASSERT_TRUE(requester.wait_for_training(kLonger));
  EXPECT_EQ(losses.size(), 6U);
  EXPECT_NEAR(losses.at(6), expected, 1e-5);
  const auto status = clusters.root(1).status();
  EXPECT_EQ(status.resumed, GetParam().learned_from);
  EXPECT_EQ(status.passes, 12);
  EXPECT_EQ(status.loop.updates,
            static_cast<std::uint64_t>(12 - status.resumed) / options.update_frequency);
  clusters.wait_for_end({0, 1});
  for (const char* name : {"a", "b", "c", "mean", "var"}) {
    EXPECT_TRUE(at::equal(clusters.weight(0, name), clusters.weight(1, name))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, JoiningARun,
                         testing::Values(Joining{}, Joining{.with_rule = true},
                                         Joining{.codec = "int8"}, Joining{.is_nesterov = true},
                                         Joining{.update_frequency = 4, .learned_from = 8}));

}  // namespace
}  // namespace ravnest::provider
