#include "ravnest/engine/stage/stage.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "ravnest/graph/slice.h"
#include "ravnest/graph/text/text.h"

namespace ravnest::engine {
namespace {

// Three layers with a tied weight, a skip connection, a batch norm, dropout and the loss.
const char* const kModel = R"(
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
  %d : f32[s0, 4] = aten.dropout.default(input=%k, p=0.0, train=true)
  %l : f32[s0, 4] = aten.add.Tensor(self=%d, other=%i)
  %n : f32[s0, 4] = aten.linear.default(input=%l, weight=%a)
  %e : f32[] = aten.mse_loss.default(self=%n, target=%t)
  return %e
)";

WeightMap make_weights() {
  at::manual_seed(3);
  return {{"a", at::randn({4, 4}).set_requires_grad(true)},
          {"b", at::randn({4, 4}).set_requires_grad(true)},
          {"c", at::ones({4}).set_requires_grad(true)},
          {"mean", at::zeros({4})},
          {"var", at::ones({4})}};
}

constexpr double kRate = 0.05;

void gradient_descent(const GradientStep& step, WeightVersions& versions) {
  versions.update(
      step.names, [&](const std::string& name, const at::Tensor& value, at::Tensor& result) {
        const at::Tensor gradient = step.gradients.at(name) / static_cast<double>(step.passes);
        result.copy_(value - kRate * gradient);
      });
}

struct Sample {
  at::Tensor x;
  at::Tensor t;
};

std::vector<Sample> make_samples(std::size_t count) {
  at::manual_seed(5);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < count; ++i) {
    samples.push_back({at::randn({8, 4}), at::randn({8, 4})});
  }
  return samples;
}

// The stages of the model in one process, with weights of their own each.
class Chain {
 public:
  explicit Chain(const std::vector<std::size_t>& cuts, StageOptions options = {},
                 const char* model = kModel) {
    std::set<std::string> homes;
    for (const graph::Stage& part : graph::slice(graph::parse_text(model), cuts)) {
      WeightMap own;
      StageOptions chosen = options;
      const WeightMap all = make_weights();
      for (const graph::Weight& weight : part.program.weights) {
        own.emplace(weight.name,
                    all.at(weight.name)
                        .detach()
                        .clone()
                        .set_requires_grad(weight.kind == graph::InputKind::kParameter));
        if (weight.kind == graph::InputKind::kParameter && !homes.insert(weight.name).second) {
          chosen.copies.insert(weight.name);
        }
      }
      sources_.push_back(part.sources);
      stages_.emplace_back(BoundProgram(part.program, own), chosen, gradient_descent);
    }
  }

  double forward(std::int64_t pass, const Sample& sample) {
    std::vector<c10::IValue> values;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      std::vector<c10::IValue> inputs;
      for (const graph::Source& source : sources_[i]) {
        inputs.push_back(source.kind == graph::Source::Kind::kPrevious ? values[source.index]
                         : source.index == 0                           ? c10::IValue(sample.x)
                                                                       : c10::IValue(sample.t));
      }
      values = stages_[i].forward(pass, std::move(inputs));
    }
    return values[0].toTensor().item<double>();
  }

  void backward(std::int64_t pass) {
    std::vector<at::Tensor> gradients;
    for (std::size_t i = stages_.size(); i-- > 0;) {
      const std::vector<at::Tensor> of_inputs = stages_[i].backward(pass, gradients);
      pass_on_copies(i);
      std::map<std::size_t, at::Tensor> routed;
      for (std::size_t k = 0; k < of_inputs.size(); ++k) {
        if (sources_[i][k].kind == graph::Source::Kind::kPrevious) {
          routed[sources_[i][k].index] = of_inputs[k];
        }
      }
      gradients.clear();
      for (std::size_t k = 0; k < routed.size(); ++k) {
        gradients.push_back(routed.at(k));
      }
    }
    spread_copies();
  }

  std::deque<Stage>& stages() { return stages_; }

 private:
  void pass_on_copies(std::size_t from) {
    for (const auto& [name, gradient] : stages_[from].take_copy_gradients()) {
      stages_[0].add_gradient(name, gradient);
    }
  }

  void spread_copies() {
    const auto home = stages_[0].weights().current();
    for (std::size_t i = 1; i < stages_.size(); ++i) {
      if (stages_[i].program().program().find_weight("a") != nullptr) {
        stages_[i].set_copy("a", home->weights.at("a"));
      }
    }
  }

  std::deque<Stage> stages_;
  std::vector<std::vector<graph::Source>> sources_;
};

std::vector<double> losses_of(Chain& chain, const std::vector<Sample>& samples) {
  std::vector<double> losses;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    losses.push_back(chain.forward(static_cast<std::int64_t>(i), samples[i]));
    chain.backward(static_cast<std::int64_t>(i));
  }
  return losses;
}

TEST(Stage, ChainedStagesTrainAsTheWholeDoes) {
  const auto samples = make_samples(30);
  Chain whole({});
  const auto expected = losses_of(whole, samples);
  EXPECT_LT(expected.back(), expected.front());
  for (const auto& cuts : std::vector<std::vector<std::size_t>>{{1}, {3}, {2, 5}, {1, 3, 5, 6}}) {
    Chain cut(cuts);
    const auto losses = losses_of(cut, samples);
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], expected[i], 1e-6 * std::abs(expected[i])) << i;
    }
    EXPECT_TRUE(at::allclose(cut.stages()[0].weights().current()->weights.at("a"),
                             whole.stages()[0].weights().current()->weights.at("a"), 1e-5));
  }
}

TEST(Stage, BackwardSeesTheWeightsOfItsForward) {
  const auto samples = make_samples(2);
  // The gradient of the first sample on the initial weights, by itself.
  Chain alone({});
  alone.forward(0, samples[0]);
  const at::Tensor before = alone.stages()[0].weights().current()->weights.at("b").clone();
  alone.backward(0);
  const at::Tensor step =
      alone.stages()[0].weights().current()->weights.at("b").detach() - before.detach();
  // Another pass updates between its forward and its backward.
  Chain late({});
  late.forward(0, samples[0]);
  late.forward(1, samples[1]);
  EXPECT_EQ(late.stages()[0].in_flight(), 2u);
  late.backward(1);
  const at::Tensor between = late.stages()[0].weights().current()->weights.at("b").detach().clone();
  late.backward(0);
  const at::Tensor late_step =
      late.stages()[0].weights().current()->weights.at("b").detach() - between;
  EXPECT_TRUE(at::allclose(late_step, step, 1e-5, 1e-7));
  EXPECT_EQ(late.stages()[0].last_delay(), 1u);
  EXPECT_EQ(late.stages()[0].max_delay(), 1u);
}

TEST(Stage, RecomputingGivesTheSame) {
  std::string model = kModel;
  model.replace(model.find("p=0.0"), 5, "p=0.5");
  const auto samples = make_samples(6);
  const auto run = [&](PassMemory memory) {
    Chain chain({2, 4}, {.memory = memory, .update_frequency = 1, .copies = {}}, model.c_str());
    at::manual_seed(11);
    std::vector<double> losses;
    for (std::int64_t i = 0; i < 6; ++i) {
      losses.push_back(chain.forward(i, samples[static_cast<std::size_t>(i)]));
      if (i > 0) {
        chain.backward(i - 1);
      }
    }
    chain.backward(5);
    for (Stage& stage : chain.stages()) {
      for (const auto& [name, tensor] : stage.snapshot()) {
        losses.push_back(tensor.sum().item<double>());
      }
    }
    return losses;
  };
  EXPECT_EQ(run(PassMemory::kStash), run(PassMemory::kRecompute));
}

TEST(Stage, UpdatesInPlaceWhereNobodyHoldsTheVersion) {
  const auto samples = make_samples(3);
  Chain chain({});
  Stage& stage = chain.stages()[0];
  const void* memory = stage.weights().current()->weights.at("a").data_ptr();
  chain.forward(0, samples[0]);
  chain.backward(0);
  EXPECT_EQ(stage.weights().current()->weights.at("a").data_ptr(), memory);
  chain.forward(1, samples[1]);
  chain.forward(2, samples[2]);
  chain.backward(1);
  EXPECT_NE(stage.weights().current()->weights.at("a").data_ptr(), memory);
  EXPECT_EQ(stage.weights().live(), 2u);
  chain.backward(2);
  EXPECT_EQ(stage.weights().number(), 3u);
}

TEST(Stage, MemoryOfOldVersionsIsUsedAgain) {
  const auto samples = make_samples(40);
  Chain chain({});
  std::set<const void*> seen;
  for (std::int64_t i = 0; i < 40; ++i) {
    chain.forward(i, samples[static_cast<std::size_t>(i)]);
    if (i >= 2) {
      chain.backward(i - 2);
    }
    seen.insert(chain.stages()[0].weights().current()->weights.at("b").data_ptr());
    EXPECT_LE(chain.stages()[0].weights().live(), 4u);
  }
  EXPECT_LE(seen.size(), 5u);
  EXPECT_EQ(chain.stages()[0].max_delay(), 2u);
}

TEST(Stage, AccumulatesGradientsBetweenUpdates) {
  const auto samples = make_samples(4);
  Chain chain({}, {.memory = PassMemory::kStash, .update_frequency = 2, .copies = {}});
  Stage& stage = chain.stages()[0];
  chain.forward(0, samples[0]);
  chain.backward(0);
  EXPECT_EQ(stage.updates(), 0u);
  chain.forward(1, samples[1]);
  chain.backward(1);
  EXPECT_EQ(stage.updates(), 1u);
  chain.forward(2, samples[2]);
  chain.backward(2);
  stage.flush();
  EXPECT_EQ(stage.updates(), 2u);
  stage.flush();
  EXPECT_EQ(stage.updates(), 2u);
}

TEST(Stage, EvaluatesWithoutATrace) {
  const auto samples = make_samples(1);
  Chain chain({});
  Stage& stage = chain.stages()[0];
  const auto outputs = stage.evaluate({samples[0].x, samples[0].t});
  EXPECT_FALSE(outputs[0].toTensor().requires_grad());
  EXPECT_EQ(stage.in_flight(), 0u);
  EXPECT_TRUE(at::equal(stage.weights().current()->weights.at("mean"), at::zeros({4})));
}

TEST(Stage, RefusesPassesItDoesNotKnow) {
  const auto samples = make_samples(1);
  Chain chain({});
  EXPECT_THROW(chain.stages()[0].backward(7, {}), std::invalid_argument);
  chain.forward(0, samples[0]);
  EXPECT_THROW(chain.forward(0, samples[0]), std::invalid_argument);
  chain.stages()[0].drop_all();
  EXPECT_EQ(chain.stages()[0].in_flight(), 0u);
  EXPECT_THROW(chain.stages()[0].set_copy("b", at::zeros({4, 4})), std::invalid_argument);
  EXPECT_THROW(chain.stages()[0].add_gradient("zzz", at::zeros({4})), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest::engine
