#include "ravnest/provider/averaged_values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ravnest/engine/bound_program.h"
#include "ravnest/graph/text/text.h"

namespace ravnest::provider {
namespace {

constexpr const char* kNormed = R"(
weight parameter "summary.weight" : f32[4, 4]
weight parameter "scale" : f32[4]
weight buffer "checksum" : f32[4]
weight buffer "spread" : f32[4]
weight buffer "count" : i64[2]
graph
  parameter %a : f32[4, 4] = "summary.weight"
  parameter %s : f32[4] = "scale"
  buffer %c : f32[4] = "checksum"
  buffer %v : f32[4] = "spread"
  buffer %n : i64[2] = "count"
  input %x : f32[8, 4]
  %h : f32[8, 4] = aten.linear.default(input=%x, weight=%a)
  %i : f32[8, 4] = aten.mul.Tensor(self=%h, other=%s)
  %j : f32[8, 4] = aten.add.Tensor(self=%i, other=%c)
  %k : f32[8, 4] = aten.add.Tensor(self=%j, other=%v)
  return %k
)";

// An optimizer with a state, and no more.
class MadeUpRule : public UpdateRule {
 public:
  void apply(const engine::GradientStep&, engine::WeightVersions&) override {}
  void start_epoch() override {}
  double rate() const override { return 0.0; }
  RuleState state() const override { return state_; }
  void load_state(const RuleState&, const engine::WeightMap&) override {}
  void forget() { state_ = {}; }

 private:
  RuleState state_{.tensors = {{"exp_avg/summary.weight", -at::ones({4, 4})},
                               {"exp_avg_sq/summary.weight", at::ones({4, 4})},
                               {"step/summary.weight", at::scalar_tensor(3.0)}},
                   .texts = {}};
};

class AveragedValuesTest : public testing::Test {
 protected:
  at::Tensor weight(const std::string& name) {
    return stage_.weights().current()->weights.at(name).detach();
  }
  std::vector<AveragedValues::Names> cut(std::size_t parts) {
    return in_parts({"summary.weight", "scale"}, {"checksum", "spread", "count"},
                    stage_.weights().current()->weights, parts);
  }

  engine::Stage stage_{
      engine::BoundProgram(graph::parse_text(kNormed),
                           {{"summary.weight", at::arange(16.0).reshape({4, 4}).contiguous()},
                            {"scale", at::arange(4.0)},
                            {"checksum", -at::ones({4})},
                            {"spread", at::ones({4})},
                            {"count", at::full({2}, 7, at::kLong)}}),
      {},
      [](const engine::GradientStep&, engine::WeightVersions&) {}};
  MadeUpRule rule_;
};

TEST_F(AveragedValuesTest, AreCutBetweenRowsIntoPartsOfAboutEqualSize) {
  const auto four = cut(4);  // of 20 values: 8, 4, 4 and 4
  ASSERT_EQ(four.size(), 4U);
  EXPECT_EQ(four[0].parameters, (std::vector<Rows>{{"summary.weight", 0, 2}}));
  EXPECT_EQ(four[1].parameters, (std::vector<Rows>{{"summary.weight", 2, 1}}));
  EXPECT_EQ(four[2].parameters, (std::vector<Rows>{{"summary.weight", 3, 1}}));
  EXPECT_EQ(four[3].parameters, (std::vector<Rows>{{"scale", 0, 4}}));
  EXPECT_EQ(four[0].buffers.size(), 3U);
  EXPECT_TRUE(four[1].buffers.empty());
  const auto two = cut(2);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[1].parameters, (std::vector<Rows>{{"summary.weight", 3, 1}, {"scale", 0, 4}}));
  EXPECT_EQ(cut(1).size(), 1U);
  EXPECT_EQ(cut(1)[0].parameters, (std::vector<Rows>{{"summary.weight", 0, 4}, {"scale", 0, 4}}));
}

TEST_F(AveragedValuesTest, OfAllPartsAreThoseOfTheWhole) {
  for (const std::size_t parts : {2U, 3U, 4U, 7U, 100U}) {
    std::vector<float> together;
    for (const auto& part : cut(parts)) {
      const AveragedValues values({.parameters = part.parameters, .buffers = {}}, stage_, {});
      const auto taken = values.take(stage_, nullptr);
      together.insert(together.end(), taken.values.begin(), taken.values.end());
    }
    const AveragedValues whole({.parameters = cut(1)[0].parameters, .buffers = {}}, stage_, {});
    EXPECT_EQ(together, whole.take(stage_, nullptr).values) << parts;
  }
}

TEST_F(AveragedValuesTest, LeaveTheOtherRowsAlone) {
  const auto held = stage_.weights().current();  // as by a pass in flight: other memory is written
  const AveragedValues values(cut(4)[1], stage_, {});
  auto taken = values.take(stage_, nullptr);
  auto moved = taken;
  for (float& value : moved.values) {
    value += 100.0F;
  }
  values.move(taken, moved, stage_, nullptr);
  at::Tensor wanted = at::arange(16.0).reshape({4, 4});
  wanted[2] += 100.0;
  EXPECT_TRUE(at::equal(weight("summary.weight"), wanted));
  values.set(taken, stage_, nullptr);
  EXPECT_TRUE(at::equal(weight("summary.weight"), at::arange(16.0).reshape({4, 4})));
}

// As after updates that were all skipped.
TEST_F(AveragedValuesTest, CountAStateThatIsNotThereYetAsZeros) {
  const RuleState whole = rule_.state();
  const AveragedValues values({.parameters = cut(1)[0].parameters, .buffers = {}}, stage_, whole);
  MadeUpRule fresh;
  fresh.forget();
  const auto taken = values.take(stage_, &fresh);
  ASSERT_EQ(taken.values.size(), values.values());
  ASSERT_EQ(taken.maxima.size(), values.maxima());
  EXPECT_TRUE(std::all_of(taken.values.end() - 32, taken.values.end(),
                          [](float value) { return value == 0.0F; }));
  values.set(values.take(stage_, &rule_), stage_, &fresh);
  EXPECT_TRUE(fresh.state().tensors.empty());
}

TEST_F(AveragedValuesTest, TakeTheLargestOfIntegers) {
  const AveragedValues values(cut(1)[0], stage_, {});
  auto mean = values.take(stage_, nullptr);
  mean.maxima[mean.maxima.size() - 1] = 9;
  mean.maxima[mean.maxima.size() - 2] = 5;  // ours has grown meanwhile
  values.set(mean, stage_, nullptr);
  EXPECT_EQ(weight("count")[0].item<std::int64_t>(), 7);
  EXPECT_EQ(weight("count")[1].item<std::int64_t>(), 9);
}

}  // namespace
}  // namespace ravnest::provider
