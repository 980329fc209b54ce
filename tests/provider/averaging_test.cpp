// Clusters that average: of different lengths, cut at different places.

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "tests/provider/cluster.h"

namespace ravnest::provider {
namespace {

constexpr Milliseconds kLong{30'000};

// Three stages and two. The parameters are first used by the ops 0, 2 and 3, the buffers by op 2.
const std::vector<std::vector<std::size_t>> kCuts{{2, 4}, {3}};
const std::vector<std::pair<std::string, std::size_t>> kUses{{"a", 0}, {"c", 2}, {"b", 3}};
constexpr std::size_t kBatchNorm = 2;

std::size_t stage_of(const std::vector<std::size_t>& cuts, std::size_t op) {
  return static_cast<std::size_t>(std::ranges::upper_bound(cuts, op) - cuts.begin());
}

planner::Plan make_plan_of_two(const graph::Program& program) {
  planner::Plan plan;
  for (const auto& cuts : kCuts) {
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
  for (const auto& [name, op] : kUses) {
    plan.rings.push_back({.id = plan.rings.size(),
                          .parameters = {name},
                          .nbytes = 4,
                          .holders = {stage_of(kCuts[0], op), stage_of(kCuts[1], op)}});
    if (op == kBatchNorm) {
      plan.rings.back().buffers = {"mean", "var"};
    }
  }
  return plan;
}

// The providers of both, in this process.
class TwoClusters {
 public:
  explicit TwoClusters(ProviderOptions options) : program_(make_model()) {
    package::write_plan(program_, make_plan_of_two(program_), folder_.path());
    options_ = std::move(options);
    options_.node_data = folder_.path();
    options_.make_rule = [] {
      return make_native_rule({.optimizer = "sgd", .optimizer_options = {{"lr", 0.05}}});
    };
    for (const auto& cuts : kCuts) {
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
      clusters_[cluster][stage] = std::make_unique<Provider>(options, std::move(callbacks));
      clusters_[cluster][stage]->start();
    }
  }
  void start() {
    start(1);
    start(0);
  }
  Provider& root(std::size_t cluster) { return *clusters_[cluster][0]; }
  void kill(std::size_t cluster) {
    for (auto& provider : clusters_[cluster]) {
      provider.reset();
    }
  }

  void submit(std::size_t cluster, const Batch& batch) {
    TestCluster::expect_in_time(root(cluster).submit(
        {.purpose = Purpose::kTrain, .samples = batch.x.size(0)}, {batch.x, batch.t}, kLong));
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
    for (const std::size_t cluster : clusters) {
      for (auto& provider : clusters_[cluster]) {
        TestCluster::expect_in_time(provider->wait_for_training(0, kLong) == 1);
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

  bool wait_for_notice(const std::string& part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] {
      return std::ranges::any_of(
          notices_, [&](const std::string& text) { return text.find(part) != std::string::npos; });
    });
  }
  bool wait_for_averages(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] { return news_.size() >= count; });
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

void expect_equal(const engine::WeightMap& found, const engine::WeightMap& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
  }
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
      TestCluster::expect_in_time(clusters.root(cluster).wait_until_idle(kLong));
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
    TestCluster::expect_in_time(clusters.root(cluster).wait_for_training(1, kLong) == 2);
  }
  clusters.close();
  EXPECT_GT(clusters.news().size(), before);
}

TEST(Averaging, RefusesWordsThatAreNone) {
  EXPECT_THROW(to_options({.averaging = "sometimes"}), std::invalid_argument);
  EXPECT_THROW(to_options({.codec = "int7"}), std::invalid_argument);
  EXPECT_THROW(to_options({.robust = "median"}), std::invalid_argument);
  EXPECT_THROW(to_options({.outer = "adam"}), std::invalid_argument);
  EXPECT_THROW(to_options({.streams = 0}), std::invalid_argument);
  EXPECT_THROW(to_options({.patience = -1.0}), std::invalid_argument);
  EXPECT_FALSE(to_options({}).every);
  EXPECT_EQ(to_options({.every = 8}).every, 8);
}

}  // namespace
}  // namespace ravnest::provider
