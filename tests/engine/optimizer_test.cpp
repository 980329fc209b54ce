#include "ravnest/engine/optim/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "ravnest/engine/optim/compensation.h"

namespace ravnest::engine {
namespace {

at::Tensor vector_of(const std::vector<double>& numbers) {
  return at::tensor(numbers, at::TensorOptions().dtype(at::kDouble));
}

// One parameter "w" and its optimizer.
struct Weight {
  Optimizer optimizer;
  std::string name = "w";
  at::Tensor value;

  Weight(std::string_view kind, const OptionMap& options, const std::vector<double>& start)
      : optimizer(kind, options), value(vector_of(start)) {}

  void step(const at::Tensor& gradient, const StepOptions& options = {}) {
    step_to(value, gradient, options);
  }
  void step_to(at::Tensor& result, const at::Tensor& gradient, const StepOptions& options = {}) {
    const std::vector<ParameterUpdate> updates = {{name, value, gradient, result}};
    optimizer.step(updates, options);
  }
  double operator[](std::int64_t i) const { return value[i].item<double>(); }
};

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Optimizer, WritesTheNewVersionWhereItIsToldAndKeepsTheOldOne) {
  Weight weight("sgd", {{"lr", 0.5}}, {1.0, 2.0});
  at::Tensor newer = at::zeros_like(weight.value);
  weight.step_to(newer, vector_of({2.0, -2.0}));
  EXPECT_TRUE(at::equal(weight.value, vector_of({1.0, 2.0})));
  EXPECT_TRUE(at::equal(newer, vector_of({0.0, 3.0})));
}

TEST(Optimizer, GoesTheSameWayInPlaceAndIntoVersions) {
  for (const std::string& name : Optimizer::known_names()) {
    Weight in_place(name, {}, {1.0, -2.0, 0.5});
    Weight versions(name, {}, {1.0, -2.0, 0.5});
    for (int i = 1; i <= 5; ++i) {
      const at::Tensor gradient = vector_of({0.1 * i, -1.0, 2.0 / i});
      in_place.step(gradient);
      at::Tensor newer = at::empty_like(versions.value);
      versions.step_to(newer, gradient);
      versions.value = newer;
    }
    EXPECT_TRUE(at::equal(in_place.value, versions.value)) << name;
  }
}

TEST(Optimizer, LeavesAParameterWithoutGradientAlone) {
  Weight weight("adam", {}, {1.0, 2.0});
  at::Tensor newer = at::zeros_like(weight.value);
  weight.step_to(newer, at::Tensor());
  EXPECT_TRUE(at::equal(newer, weight.value));
  EXPECT_TRUE(weight.optimizer.state().empty());
}

TEST(Optimizer, TakesTheFirstGradientIntoTheMomentumAsItIs) {
  Weight weight("sgd", {{"lr", 1.0}, {"momentum", 0.5}, {"dampening", 0.75}}, {0.0});
  weight.step(vector_of({4.0}));
  EXPECT_DOUBLE_EQ(weight[0], -4.0);
  weight.step(vector_of({4.0}));
  EXPECT_DOUBLE_EQ(weight[0], -4.0 - (0.5 * 4.0 + 0.25 * 4.0));
}

TEST(Optimizer, FirstStepOfAdamHasTheSizeOfTheRate) {
  Weight weight("adam", {{"lr", 0.25}, {"eps", 0.0}}, {1.0, 1.0});
  weight.step(vector_of({1e-3, -50.0}));
  EXPECT_NEAR(weight[0], 0.75, 1e-12);
  EXPECT_NEAR(weight[1], 1.25, 1e-12);
}

TEST(Optimizer, ScalesGradientsAndTheRateOfOneStep) {
  Weight weight("sgd", {{"lr", 0.5}}, {0.0});
  weight.step(vector_of({8.0}), {.gradient_scale = 0.25, .rate_factor = 0.1});
  EXPECT_DOUBLE_EQ(weight[0], -0.1);
  EXPECT_DOUBLE_EQ(weight.optimizer.rate(), 0.5);
}

TEST(Optimizer, ClipsTheNormOfAllGradientsTogether) {
  Optimizer optimizer("sgd", {{"lr", 1.0}});
  const std::string names[] = {"a", "b", "c"};
  at::Tensor a = vector_of({0.0});
  at::Tensor b = vector_of({0.0});
  at::Tensor c = vector_of({0.0});
  const at::Tensor three = vector_of({6.0});
  const at::Tensor four = vector_of({8.0});
  const at::Tensor none;
  const std::vector<ParameterUpdate> updates = {
      {names[0], a, three, a}, {names[1], b, four, b}, {names[2], c, none, c}};
  optimizer.step(updates, {.gradient_scale = 0.5, .max_norm = 1.0});
  EXPECT_NEAR(a.item<double>(), -0.6, 1e-6);
  EXPECT_NEAR(b.item<double>(), -0.8, 1e-6);
  optimizer.step(updates, {.gradient_scale = 0.5, .max_norm = 5.1});
  EXPECT_NEAR(a.item<double>(), -3.6, 1e-6);
}

TEST(Optimizer, PredictsAlongItsMomentum) {
  Weight weight("sgd", {{"lr", 0.1}, {"momentum", 0.9}}, {1.0});
  at::Tensor predicted = at::zeros_like(weight.value);
  weight.optimizer.predict("w", weight.value, 2.0, predicted);
  EXPECT_TRUE(at::equal(predicted, weight.value));
  weight.step(vector_of({3.0}));
  weight.optimizer.predict("w", weight.value, 2.0, predicted);
  EXPECT_NEAR(predicted.item<double>(), 0.7 - 0.1 * 2.0 * 3.0, 1e-12);
  EXPECT_NEAR(weight[0], 0.7, 1e-12);
}

TEST(Optimizer, PredictsNothingForNoDelay) {
  for (const std::string& name : Optimizer::known_names()) {
    Weight weight(name, {}, {1.0, -2.0});
    weight.step(vector_of({0.3, 0.4}));
    at::Tensor predicted = at::zeros_like(weight.value);
    weight.optimizer.predict("w", weight.value, 0.0, predicted);
    EXPECT_TRUE(at::equal(predicted, weight.value)) << name;
  }
}

TEST(Optimizer, SharesItsStateAndTakesItBack) {
  Weight weight("nadam", {}, {1.0, 2.0});
  weight.step(vector_of({0.5, -0.5}));
  OptimizerState saved = weight.optimizer.state();
  ASSERT_EQ(saved.size(), 4U);
  for (auto& [name, tensor] : saved) {
    tensor = tensor.clone();
  }
  weight.optimizer.load_state({}, {{"w", weight.value}});
  EXPECT_TRUE(weight.optimizer.state().empty());
  weight.optimizer.load_state(saved, {{"w", weight.value}});
  saved.at("exp_avg/w").fill_(7.0);
  EXPECT_FALSE(at::equal(weight.optimizer.state().at("exp_avg/w"), saved.at("exp_avg/w")));
  weight.optimizer.state().at("exp_avg/w").fill_(7.0);
  EXPECT_TRUE(at::equal(weight.optimizer.state().at("exp_avg/w"), saved.at("exp_avg/w")));
}

TEST(Optimizer, GivesLoadedStateTheDtypeOfItsParameter) {
  Weight weight("adagrad", {}, {1.0, 2.0});
  weight.optimizer.load_state({{"sum/w", at::ones({2})}, {"step/w", at::ones({1})}},
                              {{"w", weight.value}});
  EXPECT_EQ(weight.optimizer.state().at("sum/w").scalar_type(), at::kDouble);
}

TEST(Optimizer, SaysWhatItKnows) {
  EXPECT_EQ(refusal_of([] { Optimizer("adam", {{"mometum", 0.9}}); }),
            "[optim] adam has no option 'mometum'; it has lr, betas, eps, weight_decay, amsgrad, "
            "maximize.");
  EXPECT_EQ(refusal_of([] { Optimizer("lion", {}); }),
            "[optim] there is no optimizer 'lion'; there are sgd, adam, adamw, nadam, rmsprop, "
            "adagrad.");
  Weight weight("sgd", {}, {1.0});
  EXPECT_EQ(refusal_of([&] { weight.optimizer.set_rate(-1.0); }),
            "[optim] expected a rate of 0 or more, got -1.");
  EXPECT_EQ(refusal_of([&] { weight.step(vector_of({1.0}), {.max_norm = 0.0}); }),
            "[optim] expected a norm above 0 to clip gradients to, got 0.");
}

TEST(GradientNorm, LooksAtAllGradientsAndDoesNotHideBadOnes) {
  EXPECT_DOUBLE_EQ(gradient_norm(std::vector<at::Tensor>{vector_of({3.0}), at::Tensor(),
                                                         vector_of({0.0, -4.0})}),
                   5.0);
  EXPECT_DOUBLE_EQ(gradient_norm({}), 0.0);
  EXPECT_DOUBLE_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_NEAR(clip_factor(4.0, 1.0), 0.25, 1e-6);
  EXPECT_TRUE(std::isnan(clip_factor(std::nan(""), 1.0)));
  EXPECT_EQ(clip_factor(std::numeric_limits<double>::infinity(), 1.0), 0.0);
}

TEST(GradientNorm, OfSmallDtypesHasTheDigitsOfFloat) {
  const std::vector<at::Tensor> gradients = {at::ones({10000}, at::kBFloat16),
                                             at::ones({1}, at::kBFloat16)};
  EXPECT_NEAR(gradient_norm(gradients), std::sqrt(10001.0), 1e-3);
}

TEST(Warmup, StartsAtOneOverTheDelayAndEndsAtOne) {
  EXPECT_DOUBLE_EQ(warmup_factor(4.0, 0, 100), 0.25);
  EXPECT_DOUBLE_EQ(warmup_factor(4.0, 50, 100), 0.5);
  EXPECT_DOUBLE_EQ(warmup_factor(4.0, 100, 100), 1.0);
  EXPECT_DOUBLE_EQ(warmup_factor(4.0, 5000, 100), 1.0);
  EXPECT_DOUBLE_EQ(warmup_factor(0.0, 0, 100), 1.0);
  EXPECT_DOUBLE_EQ(warmup_factor(4.0, 0, 0), 1.0);
}

TEST(CompensateDelay, CorrectsTheGradientOfABowlTowardsThatOfToday) {
  const at::Tensor then = vector_of({1.0, -2.0});
  const at::Tensor now = vector_of({0.5, -1.0});
  at::Tensor gradient = then.clone();  // of half the square
  compensate_delay(gradient, now, then, 0.25);
  EXPECT_TRUE(at::allclose(gradient, vector_of({1.0 - 0.125, -2.0 + 1.0})));
  EXPECT_TRUE(at::equal(now, vector_of({0.5, -1.0})));
  compensate_delay(gradient, now, now, 0.25);
  EXPECT_TRUE(at::allclose(gradient, vector_of({0.875, -1.0})));
}

TEST(CompensateDelay, RefusesOtherShapes) {
  EXPECT_EQ(refusal_of([] {
              compensate_delay(vector_of({1.0}), vector_of({1.0, 2.0}), vector_of({1.0}), 0.1);
            }),
            "[optim] expected a gradient and two weights of one shape, got [1], [2] and [1].");
}

}  // namespace
}  // namespace ravnest::engine
