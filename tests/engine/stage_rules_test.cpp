// What a stage does with late and with bad gradients, against the published rules in plain torch.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "ravnest/engine/optim/optimizer.h"
#include "ravnest/engine/stage/finite.h"
#include "ravnest/engine/stage/stage.h"
#include "ravnest/graph/text/text.h"

namespace ravnest::engine {
namespace {

// A linear layer and its squared error: the gradient is at hand.
const char* const kLine = R"(
weight parameter "w" : f32[1, 3]
graph
  symbol s0 = 4 in [2, inf]
  parameter %w : f32[1, 3] = "w"
  input %x : f32[s0, 3]
  input %t : f32[s0, 1]
  %y : f32[s0, 1] = aten.linear.default(input=%x, weight=%w)
  %e : f32[] = aten.mse_loss.default(self=%y, target=%t)
  return %e
)";

constexpr double kLineRate = 0.1;

struct LineSample {
  at::Tensor x;
  at::Tensor t;
};

std::vector<LineSample> make_line_samples(std::size_t count) {
  at::manual_seed(5);
  std::vector<LineSample> samples;
  for (std::size_t i = 0; i < count; ++i) {
    samples.push_back({at::randn({4, 3}), at::randn({4, 1})});
  }
  return samples;
}

at::Tensor gradient_at(const at::Tensor& w, const LineSample& sample) {
  return 2.0 / 4.0 * (at::mm(sample.x, w.t()) - sample.t).t().mm(sample.x);
}

void descend(const GradientStep& step, WeightVersions& versions) {
  versions.update(step.names, [&](const std::string& name, const at::Tensor& value,
                                  at::Tensor& result) {
    result.copy_(value - kLineRate * step.gradients.at(name) / static_cast<double>(step.passes));
  });
}

class Line {
 public:
  explicit Line(StageOptions options = {}, ApplyStep apply = descend)
      : stage(make_program(), std::move(options), std::move(apply)) {}

  double forward(std::int64_t pass, const LineSample& sample) {
    return stage.forward(pass, {sample.x, sample.t})[0].toTensor().item<double>();
  }
  void backward(std::int64_t pass) { stage.backward(pass, {}); }
  at::Tensor weight() { return stage.weights().current()->weights.at("w").detach().clone(); }

  Stage stage;

 private:
  static BoundProgram make_program() {
    at::manual_seed(3);
    return {graph::parse_text(kLine), {{"w", at::randn({1, 3}).set_requires_grad(true)}}};
  }
};

void expect_close(const at::Tensor& found, const at::Tensor& wanted) {
  EXPECT_TRUE(at::allclose(found, wanted, 1e-5, 1e-7)) << found << "\n" << wanted;
}

TEST(StageRules, CompensatesTheDelayAsDcAsgdDoes) {
  constexpr double kStrength = 2.0;
  const auto samples = make_line_samples(2);
  Line line({.compensation = kStrength});
  const at::Tensor w0 = line.weight();
  line.forward(0, samples[0]);
  line.forward(1, samples[1]);
  line.backward(0);
  const at::Tensor w1 = w0 - kLineRate * gradient_at(w0, samples[0]);
  expect_close(line.weight(), w1);
  line.backward(1);
  const at::Tensor g = gradient_at(w0, samples[1]);
  expect_close(line.weight(), w1 - kLineRate * (g + kStrength * g * g * (w1 - w0)));
  EXPECT_FALSE(at::allclose(line.weight(), w1 - kLineRate * g, 1e-5, 1e-7)) << "shows nothing";
}

TEST(StageRules, PredictsTheWeightsOfTheBackward) {
  constexpr double kMomentum = 0.9;
  Optimizer optimizer("sgd", {{"lr", kLineRate}, {"momentum", kMomentum}});
  const auto apply = [&](const GradientStep& step, WeightVersions& versions) {
    const std::string name = "w";
    versions.update(step.names,
                    [&](const std::string&, const at::Tensor& value, at::Tensor& result) {
                      const ParameterUpdate update{name, value, step.gradients.at("w"), result};
                      optimizer.step(std::span(&update, 1));
                    });
  };
  const auto samples = make_line_samples(3);
  Line line({}, apply);
  line.stage.predict_with(
      [&](const std::string& name, const at::Tensor& value, double delay, at::Tensor& result) {
        optimizer.predict(name, value, delay, result);
      });
  const at::Tensor w0 = line.weight();
  line.forward(0, samples[0]);
  line.backward(0);
  const at::Tensor v1 = gradient_at(w0, samples[0]);
  const at::Tensor w1 = w0 - kLineRate * v1;
  expect_close(line.weight(), w1);

  line.forward(1, samples[1]);  // nothing in flight: no delay
  const double loss = line.forward(2, samples[2]);
  const at::Tensor expected = w1 - kLineRate * 1.0 * v1;  // one update before its backward
  EXPECT_NEAR(loss, at::mse_loss(at::mm(samples[2].x, expected.t()), samples[2].t).item<double>(),
              1e-5);
  line.backward(1);
  const at::Tensor v2 = kMomentum * v1 + gradient_at(w1, samples[1]);
  const at::Tensor w2 = w1 - kLineRate * v2;
  expect_close(line.weight(), w2);
  line.backward(2);
  const at::Tensor v3 = kMomentum * v2 + gradient_at(expected, samples[2]);
  expect_close(line.weight(), w2 - kLineRate * v3);
}

TEST(StageRules, RecordsTheDelayOfEveryUpdate) {
  const auto samples = make_line_samples(10);
  Line line;
  for (std::int64_t i = 0; i < 10; ++i) {
    line.forward(i, samples[static_cast<std::size_t>(i)]);
    if (i >= 2) {
      line.backward(i - 2);
    }
  }
  line.backward(8);
  line.backward(9);
  EXPECT_EQ(line.stage.delays(), (std::vector<std::uint64_t>{1, 1, 8}));
  EXPECT_EQ(line.stage.max_delay(), 2U);
  EXPECT_EQ(line.stage.updates(), 10U);
}

TEST(StageRules, CountsTheLongestDelayOfTheGradientsInAnUpdate) {
  const auto samples = make_line_samples(4);
  Line line({.update_frequency = 2});
  line.forward(0, samples[0]);
  line.forward(1, samples[1]);
  line.forward(2, samples[2]);
  line.backward(0);
  line.backward(1);
  line.forward(3, samples[3]);
  line.backward(2);  // late by one update
  line.backward(3);  // not late
  EXPECT_EQ(line.stage.delays(), (std::vector<std::uint64_t>{1, 1}));
}

TEST(StageRules, SkipsAnUpdateWhoseGradientsAreNotFinite) {
  auto samples = make_line_samples(3);
  samples[1].t[0] = std::numeric_limits<float>::infinity();
  Line line;
  line.forward(0, samples[0]);
  line.backward(0);
  const at::Tensor before = line.weight();
  line.forward(1, samples[1]);
  line.backward(1);
  EXPECT_TRUE(line.weight().equal(before));
  EXPECT_EQ(line.stage.updates(), 2U);
  EXPECT_EQ(line.stage.skipped(), 1U);
  EXPECT_EQ(line.stage.skipped_in_a_row(), 1U);
  line.forward(2, samples[2]);
  line.backward(2);
  expect_close(line.weight(), before - kLineRate * gradient_at(before, samples[2]));
  EXPECT_EQ(line.stage.skipped(), 1U);
  EXPECT_EQ(line.stage.skipped_in_a_row(), 0U);
}

TEST(StageRules, SkipsTheWholeUpdateOfAPassThatIsRefused) {
  const auto samples = make_line_samples(5);
  Line line({.update_frequency = 2});
  const at::Tensor before = line.weight();
  line.forward(0, samples[0]);
  line.backward(0);
  line.stage.refuse(1);  // never computed
  EXPECT_EQ(line.stage.in_flight(), 1U);
  line.backward(1);
  EXPECT_TRUE(line.weight().equal(before));
  line.forward(2, samples[2]);
  line.stage.refuse(2);  // found out between forward and backward
  line.backward(2);
  line.forward(3, samples[3]);
  line.backward(3);
  EXPECT_TRUE(line.weight().equal(before));
  EXPECT_EQ(line.stage.updates(), 2U);
  EXPECT_EQ(line.stage.skipped(), 2U);
  line.forward(4, samples[4]);
  line.backward(4);
  line.stage.flush();
  EXPECT_FALSE(line.weight().equal(before));
}

TEST(Finite, TellsTheWorstOfATensorOfAnyDtypeAndLayout) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    at::Tensor numbers = at::zeros({37, 5}, dtype);
    numbers[3][2] = -60000.0;
    EXPECT_EQ(finiteness_of(numbers), Finiteness::kFinite) << dtype;
    numbers[36][4] = -kInfinity;
    EXPECT_EQ(finiteness_of(numbers), Finiteness::kInfinite) << dtype;
    numbers[0][0] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(finiteness_of(numbers), Finiteness::kNan) << dtype;
    EXPECT_EQ(finiteness_of(numbers.t()), Finiteness::kNan) << dtype;
    EXPECT_EQ(finiteness_of(numbers.slice(1, 1, 3)), Finiteness::kFinite) << dtype;
    EXPECT_EQ(finiteness_of(numbers.select(1, 4).expand({2, 37})), Finiteness::kInfinite) << dtype;
  }
  EXPECT_TRUE(is_finite(at::Tensor()));
  EXPECT_TRUE(is_finite(at::full({2}, -1, at::kLong)));
  EXPECT_TRUE(is_finite(at::empty({0})));
}

}  // namespace
}  // namespace ravnest::engine
