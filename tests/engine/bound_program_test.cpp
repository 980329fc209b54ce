#include "ravnest/engine/bound_program.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/graph/text/text.h"

namespace ravnest::engine {
namespace {

// Two linear layers with one tied weight, a batch norm between, and dropout.
const char* const kTied = R"(
program
weight parameter "first.weight" : f32[3, 3]
weight parameter "second.weight" : f32[3, 3] key "first.weight"
weight buffer "mean" : f32[3]
weight buffer "var" : f32[3]
graph
  symbol s0 = 4 in [2, inf]
  parameter %w : f32[3, 3] = "first.weight"
  buffer %m : f32[3] = "mean"
  buffer %v : f32[3] = "var"
  input %x : f32[s0, 3]
  %a : f32[s0, 3] = aten.linear.default(input=%x, weight=%w)
  %b : f32[s0, 3] = aten.batch_norm.default(input=%a, weight=none, bias=none, running_mean=%m, running_var=%v, training=true, momentum=0.1, eps=1e-5, cudnn_enabled=false)
  %c : f32[s0, 3] = aten.dropout.default(input=%b, p=0.5, train=true)
  %d : f32[s0, 3] = aten.linear.default(input=%c, weight=%w)
  return %d
)";

BoundProgram bind() {
  graph::Program program = graph::parse_text(kTied);
  at::manual_seed(1);
  return BoundProgram(std::move(program),
                      {{"first.weight", at::randn({3, 3}).set_requires_grad(true)},
                       {"mean", at::zeros({3})},
                       {"var", at::ones({3})}});
}

at::Tensor run(const BoundProgram& bound, const at::Tensor& x, Mode mode) {
  at::manual_seed(7);
  return bound.run({x}, mode).at(0).toTensor();
}

TEST(BoundProgram, FollowsTheMode) {
  const BoundProgram bound = bind();
  const at::Tensor x = at::randn({5, 3});
  const at::Tensor w = bound.weight("second.weight");
  const at::Tensor normal = at::linear(x, w) / std::sqrt(1.0 + 1e-5);
  EXPECT_TRUE(at::allclose(run(bound, x, Mode::kEval), at::linear(normal, w)));
  EXPECT_TRUE(at::equal(bound.weight("mean"), at::zeros({3})));
  run(bound, x, Mode::kTrain);
  EXPECT_FALSE(at::equal(bound.weight("mean"), at::zeros({3})));
}

TEST(BoundProgram, StagesShareWeightsAndSumTheGradientsOfTiedOnes) {
  const BoundProgram bound = bind();
  const at::Tensor x = at::randn({5, 3});
  run(bound, x, Mode::kEval).sum().backward();
  const at::Tensor w = bound.weight("first.weight");
  const at::Tensor expected = w.grad().clone();
  for (std::size_t cut = 1; cut < 4; ++cut) {
    w.mutable_grad() = at::Tensor();
    const BoundStages stages = bound.slice({cut});
    ASSERT_EQ(stages.size(), 2U);
    stages.run({x}, Mode::kEval).at(0).toTensor().sum().backward();
    EXPECT_TRUE(at::equal(w.grad(), expected)) << "cut at " << cut;
  }
}

TEST(BoundProgram, SavesWeightsAsTheyAreAndReadsThemBack) {
  const BoundProgram bound = bind();
  {
    const c10::InferenceMode guard(false);
    bound.weight("first.weight").detach().fill_(0.25);
  }
  const auto path = std::filesystem::temp_directory_path() / "ravnest_bound_program_test.pt2";
  graph::write_pt2(bound.snapshot(), path);
  const BoundProgram loaded(graph::read_pt2(path));
  std::filesystem::remove(path);
  EXPECT_EQ(loaded.weight("second.weight").data_ptr(), loaded.weight("first.weight").data_ptr());
  EXPECT_TRUE(loaded.weight("first.weight").requires_grad());
  const at::Tensor x = at::randn({6, 3});
  EXPECT_TRUE(at::equal(run(loaded, x, Mode::kEval), run(bound, x, Mode::kEval)));
}

TEST(BoundProgram, RefusesToRunWithoutWeightData) {
  try {
    const BoundProgram bound(graph::parse_text(kTied));
    FAIL() << "bound weights that are not there";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "[engine] weight 'first.weight' has no data: a Program read from text cannot be "
                 "run.");
  }
}

TEST(BoundProgram, MovesToAnotherDevice) {
  BoundProgram bound(graph::parse_text(R"(
weight parameter "w" : f32[3, 3]
graph
  parameter %w : f32[3, 3] = "w"
  input %x : f32[4, 3]
  %y : f32[4, 3] = aten.linear.default(input=%x, weight=%w)
  %z : f32[3] = aten.zeros.default(size=[3], device:=@cpu)
  %sum : f32[4, 3] = aten.add.Tensor(self=%y, other=%z)
  return %sum
)"),
                     {{"w", at::ones({3, 3}).set_requires_grad(true)}});
  bound.to(c10::Device(c10::kMeta));
  const at::Tensor x = at::empty({4, 3}, at::TensorOptions().device(c10::kMeta));
  const at::Tensor sum = run(bound, x, Mode::kTrain);
  EXPECT_TRUE(sum.is_meta());
  EXPECT_TRUE(sum.requires_grad());
}

}  // namespace
}  // namespace ravnest::engine
