#include "ravnest/provider/update_rule.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/provider/cluster.h"

namespace ravnest::provider {
namespace {

// PipeMare: the rate times delay^-p, p falling from 1 to 0 over the first updates.
TEST(UpdateRule, WarmsUpAsPipeMareDoes) {
  constexpr double kRate = 0.1;
  const auto rule = make_native_rule(
      {.optimizer = "sgd", .optimizer_options = {{"lr", kRate}}, .warmup_updates = 2});
  const engine::BoundProgram program(make_model());
  engine::WeightVersions weights(program);
  const auto value = [&] { return weights.current()->weights.at("a").detach().clone(); };
  const at::Tensor gradient = at::arange(16, at::kFloat).view({4, 4});
  // Delay 4: rates of 4^-1, 4^-0.5, and then the whole.
  for (const double factor : {0.25, 0.5, 1.0, 1.0}) {
    const at::Tensor before = value();
    rule->apply({.names = {"a"}, .gradients = {{"a", gradient.clone()}}, .passes = 1, .delay = 4},
                weights);
    EXPECT_TRUE(at::allclose(value(), before - kRate * factor * gradient, 1e-5, 1e-6)) << factor;
  }
}

TEST(UpdateRule, WarmsUpNobodyWhoseGradientsAreNotLate) {
  const auto rule = make_native_rule(
      {.optimizer = "sgd", .optimizer_options = {{"lr", 0.1}}, .warmup_updates = 100});
  const engine::BoundProgram program(make_model());
  engine::WeightVersions weights(program);
  const at::Tensor before = weights.current()->weights.at("a").detach().clone();
  rule->apply({.names = {"a"}, .gradients = {{"a", at::ones({4, 4})}}, .passes = 1, .delay = 0},
              weights);
  EXPECT_TRUE(at::allclose(weights.current()->weights.at("a").detach(), before - 0.1));
}

}  // namespace
}  // namespace ravnest::provider
