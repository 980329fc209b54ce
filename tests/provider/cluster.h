#pragma once

#include <ATen/ATen.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "ravnest/engine/bound_program.h"
#include "ravnest/graph/slice.h"
#include "ravnest/graph/text/text.h"
#include "ravnest/package/package.h"
#include "ravnest/planner/plan.h"
#include "ravnest/provider/provider.h"
#include "tests/base/temporary_folder.h"

namespace ravnest::provider {

inline constexpr Milliseconds kLong{20'000};

inline void expect_equal(const engine::WeightMap& found, const engine::WeightMap& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
  }
}

// Layers with a tied weight, a skip over all stages, an in-place operator right behind a cut, a
// batch norm and the loss.
inline constexpr const char* kModel = R"(
weight parameter "a" : f32[4, 4]
weight parameter "b" : f32[4, 4]
weight parameter "c" : f32[4]
weight buffer "mean" : f32[4]
weight buffer "var" : f32[4]
graph
  symbol s0 = 8 in [2, inf]
  parameter %a : f32[4, 4] = "a"
  parameter %b : f32[4, 4] = "b"
  parameter %c : f32[4] = "c"
  buffer %m : f32[4] = "mean"
  buffer %v : f32[4] = "var"
  input %x : f32[s0, 4]
  input %t : f32[s0, 4]
  %h : f32[s0, 4] = aten.linear.default(input=%x, weight=%a)
  %i : f32[s0, 4] = aten.tanh_.default(self=%h)
  %j : f32[s0, 4] = aten.batch_norm.default(input=%i, weight=%c, bias=none, running_mean=%m, running_var=%v, training=true, momentum=0.1, eps=1e-5, cudnn_enabled=false)
  %k : f32[s0, 4] = aten.linear.default(input=%j, weight=%b)
  %l : f32[s0, 4] = aten.add.Tensor(self=%k, other=%i)
  %n : f32[s0, 4] = aten.linear.default(input=%l, weight=%a)
  %e : f32[] = aten.mse_loss.default(self=%n, target=%t)
  return %e, %n
)";

inline int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  close(socket);
  return ntohs(address.sin_port);
}

inline graph::Program make_model(const std::string& text = kModel, std::int64_t width = 4) {
  const graph::Program program = graph::parse_text(text);
  at::manual_seed(3);
  engine::WeightMap weights;
  for (const graph::Weight& weight : program.weights) {
    const bool is_variance = weight.name == "var" || weight.name == "c";
    const std::vector<std::int64_t> sizes = weight.name.size() == 1 && weight.name != "c"
                                                ? std::vector<std::int64_t>{width, width}
                                                : std::vector<std::int64_t>{width};
    at::Tensor value = is_variance             ? at::ones(sizes)
                       : weight.name == "mean" ? at::zeros(sizes)
                                               : at::randn(sizes) * 0.5;
    value.set_requires_grad(weight.kind == graph::InputKind::kParameter);
    weights.emplace(weight.name, value);
  }
  return engine::BoundProgram(program, std::move(weights)).snapshot();
}

inline planner::Plan make_plan(const graph::Program& program, const std::vector<std::size_t>& cuts,
                               std::int64_t first_id = 0) {
  planner::Plan plan;
  const std::vector<graph::Stage> parts = graph::slice(program, cuts);
  std::set<std::string> homes;
  planner::Cluster cluster;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    planner::Machine machine;
    machine.id = first_id + static_cast<std::int64_t>(k);
    machine.address = "127.0.0.1:" + std::to_string(free_port());
    machine.ram_gb = 1;
    machine.mbps = 1000;
    plan.pool.push_back(machine);
    planner::Stage stage;
    stage.machine = k;
    stage.first_op = k == 0 ? 0 : cuts[k - 1];
    stage.last_op = k < cuts.size() ? cuts[k] : program.graph.ops.size();
    stage.delay = parts.size() - 1 - k;
    for (const graph::Weight& weight : parts[k].program.weights) {
      if (weight.kind == graph::InputKind::kParameter) {
        (homes.insert(weight.name).second ? stage.parameters : stage.copies).push_back(weight.name);
      }
    }
    cluster.stages.push_back(stage);
  }
  plan.clusters.push_back(cluster);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (!cluster.stages[k].parameters.empty()) {
      plan.rings.push_back({.id = plan.rings.size(),
                            .parameters = cluster.stages[k].parameters,
                            .nbytes = 4,
                            .holders = {k}});
    }
  }
  return plan;
}

struct Batch {
  at::Tensor x;
  at::Tensor t;
};

inline std::vector<Batch> make_batches(std::size_t count) {
  at::manual_seed(5);
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < count; ++i) {
    const at::Tensor x = at::randn({8, 4});
    batches.push_back({x, at::tanh(x.flip(1))});
  }
  return batches;
}

// Targets that a validation can count: the greatest of each row is its class.
inline at::Tensor as_classes(const at::Tensor& t) {
  return at::zeros_like(t).scatter_(1, t.argmax(1, true), 1.0);
}

// The providers of one cluster, in this process, talking over the network.
class TestCluster {
 public:
  explicit TestCluster(const std::vector<std::size_t>& cuts, ProviderOptions options = {},
                       const std::string& model = kModel, std::int64_t first_id = 0)
      : program_(make_model(model)), options_(std::move(options)), first_id_(first_id) {
    package::write_plan(program_, make_plan(program_, cuts, first_id), folder_.path());
    options_.node_data = folder_.path();
    if (!options_.make_rule) {
      options_.make_rule = [] {
        return make_native_rule({.optimizer = "sgd", .optimizer_options = {{"lr", 0.05}}});
      };
    }
    providers_.resize(cuts.size() + 1);
  }

  // In any order; the callbacks are those of the leaf.
  void start(std::size_t stage, ProviderCallbacks callbacks = {}) {
    ProviderOptions options = options_;
    options.name = name_of(stage);
    if (adjust) {
      adjust(options);
    }
    if (stage + 1 == providers_.size()) {
      options.loss_file = folder_.path() / "losses.txt";
      options.accuracy_file = folder_.path() / "val_accuracies.txt";
    }
    providers_[stage] = std::make_unique<Provider>(options, std::move(callbacks));
    providers_[stage]->start();
  }
  void start_all() {
    for (std::size_t stage = providers_.size(); stage-- > 0;) {
      start(stage);
    }
  }
  // What is different for some of them; by their name.
  std::function<void(ProviderOptions&)> adjust;
  // As if the process was killed.
  void kill(std::size_t stage) { providers_[stage].reset(); }

  std::string name_of(std::size_t stage) const {
    return "node_" + std::to_string(first_id_ + static_cast<std::int64_t>(stage));
  }
  package::NodeConfig node(std::size_t stage) const {
    return package::read_node(folder_.path(), name_of(stage));
  }
  transport::Peer peer(std::size_t stage) const {
    return {.name = name_of(stage), .address = node(stage).address};
  }
  Provider& root() { return *providers_[0]; }
  Provider& at(std::size_t stage) { return *providers_[stage]; }
  Provider& leaf() { return *providers_.back(); }
  std::size_t size() const { return providers_.size(); }
  const graph::Program& program() const { return program_; }
  const std::filesystem::path& folder() const { return folder_.path(); }

  void train(const std::vector<Batch>& batches, std::int64_t epoch = 0) {
    for (const Batch& batch : batches) {
      expect_in_time(
          root().submit({.purpose = Purpose::kTrain, .epoch = epoch, .samples = batch.x.size(0)},
                        {batch.x, batch.t}, Milliseconds(20'000)));
    }
  }
  void end_training() {
    root().end_training();
    for (auto& provider : providers_) {
      expect_in_time(provider->wait_for_training(0, Milliseconds(20'000)) == 1);
    }
  }
  void close() {
    for (auto& provider : providers_) {
      provider->close(Milliseconds(5000));
    }
  }
  std::vector<double> losses() const {
    std::ifstream file(folder_.path() / "losses.txt");
    return {std::istream_iterator<double>(file), {}};
  }

  static void expect_in_time(bool condition) {
    if (!condition) {
      throw std::runtime_error("not in time");
    }
  }

 private:
  TemporaryFolder folder_;
  graph::Program program_;
  ProviderOptions options_;
  const std::int64_t first_id_;
  std::vector<std::unique_ptr<Provider>> providers_;
};

}  // namespace ravnest::provider
