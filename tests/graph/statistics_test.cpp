#include "ravnest/graph/cost/statistics.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "ravnest/graph/cost/places.h"
#include "ravnest/graph/text/text.h"

namespace ravnest::graph {
namespace {

const char* const kNet = R"(
weight parameter "stem.weight" : f32[8, 8] key "0"
weight parameter "head.weight" : f32[8, 8] key "0"
weight parameter "body.0.weight" : f32[32, 8] key "1"
weight parameter "body.1.weight" : f32[8, 32] no_grad key "2"
weight buffer "count" : i64[2] key "3"
graph
  symbol s0 = 4 in [2, 64]
  symbol s1 = 3
  parameter %stem : f32[8, 8] = "stem.weight"
  parameter %up : f32[32, 8] = "body.0.weight"
  parameter %down : f32[8, 32] no_grad = "body.1.weight"
  input %x : f32[s0, s1, 8]
  %a : f32[s0, s1, 8] = aten.linear.default(input=%x, weight=%stem) in "stem"
  %b : f32[s0, s1, 32] = aten.linear.default(input=%a, weight=%up) in "body.0"
  %c : f32[s0, s1, 8] = aten.linear.default(input=%b, weight=%down) in "body.1"
  %d : f32[s0, s1, 8] = aten.relu.default(self=%c)
  %e : f32[s0, s1, 8] = aten.linear.default(input=%d, weight=%stem) in "head"
  return %e
)";

TEST(Statistics, CountsWeightsOnceAndOperatorsByTarget) {
  const Statistics found = statistics(parse_text(kNet), {});
  EXPECT_EQ(found.parameters, 64 + 256 + 256);
  EXPECT_EQ(found.parameter_bytes, 4 * 576);
  EXPECT_EQ(found.trainable_parameters, 64 + 256);
  EXPECT_EQ(found.buffers, 2);
  EXPECT_EQ(found.buffer_bytes, 16);
  EXPECT_EQ(found.ops, 5);
  ASSERT_EQ(found.operators.size(), 2U);
  EXPECT_EQ(found.operators[0].target, "aten.linear.default");
  EXPECT_EQ(found.operators[0].count, 4);
}

TEST(Statistics, CountsWithTheBatchThatIsAskedFor) {
  const Program program = parse_text(kNet);
  const Statistics captured = statistics(program, {});
  const Statistics larger = statistics(program, {.batch = 40});
  EXPECT_EQ(captured.batch, 4);
  EXPECT_EQ(larger.batch, 40);
  EXPECT_EQ(larger.captured_batch, 4);
  EXPECT_TRUE(larger.batch_is_dynamic);
  EXPECT_EQ(larger.flops, 10 * captured.flops);
  EXPECT_EQ(larger.memory.activations, 10 * captured.memory.activations);
  EXPECT_EQ(larger.memory.weights, captured.memory.weights);
}

void expect_refused(const std::string& text, std::int64_t batch, const std::string& reason) {
  try {
    (void)statistics(parse_text(text), {.batch = batch});
    ADD_FAILURE() << "took batch " << batch;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
  }
}

TEST(Statistics, RefusesABatchTheModelDoesNotTake) {
  expect_refused(kNet, 65, "64 or less, got 65");
  expect_refused(kNet, 0, "1 or more, got 0");
  expect_refused("graph\n  input %x : f32[4, 8]\n  return %x\n", 5, "fixed to, got 5");
  expect_refused("graph\n  input %x : ?\n  return %x\n", 5, "without example inputs");
  EXPECT_EQ(
      statistics(parse_text("graph\n  input %x : f32[4, 8]\n  return %x\n"), {.batch = 4}).batch,
      4);
}

TEST(Statistics, SaysWhenCostsAreNotKnown) {
  const Statistics found =
      statistics(parse_text("graph\n  input %x : ?\n  %y : ? = aten.relu.default(self=%x)\n"
                            "  return %y\n"),
                 {});
  EXPECT_FALSE(found.costs_known);
  EXPECT_FALSE(found.batch.has_value());
}

TEST(Statistics, PlacesTogetherAreTheWholeModel) {
  const Statistics found = statistics(parse_text(kNet), {});
  Place sum;
  for (const Place& place : found.places) {
    sum.ops += place.ops;
    sum.parameters += place.parameters;
    sum.activation_bytes += place.activation_bytes;
    sum.flops += place.flops;
    sum.share += place.share;
  }
  EXPECT_EQ(sum.ops, found.ops);
  EXPECT_EQ(sum.parameters, found.parameters);
  EXPECT_EQ(sum.activation_bytes, found.memory.activations);
  EXPECT_EQ(sum.flops, found.flops);
  EXPECT_NEAR(sum.share, 1.0, 1e-9);
}

Place place_of(const std::string& path, std::int64_t flops) {
  Place place;
  place.path = path;
  place.ops = 1;
  place.flops = flops;
  place.parameter_bytes = flops;
  return place;
}

TEST(Places, DividesWhatIsHeavyAndLeavesWhatIsLight) {
  const std::vector<Place> parts =
      divide({place_of("a.0.x", 30), place_of("a.0.y", 30), place_of("a.1.x", 5),
              place_of("a.1.y", 5), place_of("a", 10), place_of("", 20)},
             0.35);
  ASSERT_EQ(parts.size(), 5U);
  EXPECT_EQ(parts[0].path, "a.0.x");
  EXPECT_EQ(parts[1].path, "a.0.y");
  EXPECT_EQ(parts[2].path, "");
  EXPECT_EQ(parts[3].path, "a");  // what it does itself
  EXPECT_EQ(parts[4].path, "a.1");
  EXPECT_EQ(parts[4].flops, 10);
  EXPECT_NEAR(parts[0].share, 0.3, 1e-9);
}

TEST(Places, TakesPathsOfAnyForm) {
  std::string deep = "a";
  for (int depth = 0; depth < 10000; ++depth) {
    deep += ".a";
  }
  std::int64_t flops = 0;
  for (const Place& part :
       divide({place_of(deep, 1), place_of(".", 1), place_of("..x.", 1)}, 0.0)) {
    flops += part.flops;
  }
  EXPECT_EQ(flops, 3);
  EXPECT_EQ(divide({}, 0.2).size(), 1U);
}

}  // namespace
}  // namespace ravnest::graph
