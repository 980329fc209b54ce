#include "ravnest/graph/cost/pass_memory.h"

#include <gtest/gtest.h>

#include "ravnest/graph/text/text.h"

namespace ravnest::graph {
namespace {

TEST(PassMemory, IsHighestWhereActivationsMeetGradients) {
  const Program program = parse_text(R"(
weight parameter "w" : f32[]
graph
  parameter %w : f32[] = "w"
  input %x : f32[1000]
  %a : f32[1000] = aten.mul.Tensor(self=%x, other=%w)
  %b : f32[1000] = aten.sin.default(self=%a)
  %c : f32[1000] = aten.sin.default(self=%b)
  %d : f32[] = aten.sum.default(self=%c)
  return %d
)");
  const GraphCosts costs = estimate_costs(program.graph, {});
  const PassMemory memory(program.graph, costs);
  // %x, %a, %b are kept and %d is held; in the backward come the gradients of %c and %b.
  EXPECT_EQ(memory.peak(0, 4), 5 * 4000 + 4);
  // Of the first op alone: %x and %a, and the gradients of %a and %w.
  EXPECT_EQ(memory.peak(0, 1), 3 * 4000 + 4);
  EXPECT_EQ(memory.peak(2, 2), 0);
}

TEST(PassMemory, FreesWhatNobodyKeeps) {
  const Program program = parse_text(R"(
graph
  input %x : f32[1000]
  %a : f32[1000] = aten.sin.default(self=%x)
  %b : f32[1000] = aten.sin.default(self=%a)
  %c : f32[1000] = aten.sin.default(self=%b)
  return %c
)");
  const GraphCosts costs = estimate_costs(program.graph, {});
  EXPECT_EQ(PassMemory(program.graph, costs).peak(0, 3), 3 * 4000);
}

TEST(PassMemory, CountsTheResidualGradientOnce) {
  const Program program = parse_text(R"(
weight parameter "w" : f32[]
graph
  parameter %w : f32[] = "w"
  input %x : f32[1000]
  %a : f32[1000] = aten.mul.Tensor(self=%x, other=%w)
  %b : f32[1000] = aten.sin.default(self=%a)
  %c : f32[1000] = aten.add.Tensor(self=%a, other=%b)
  return %c
)");
  const GraphCosts costs = estimate_costs(program.graph, {});
  // %x, %a and the output %c stay; the gradient of %c is also that of %a and of
  // %b, until the sine gives %a a second one.
  EXPECT_EQ(PassMemory(program.graph, costs).peak(0, 3), 5 * 4000);
}

}  // namespace
}  // namespace ravnest::graph
