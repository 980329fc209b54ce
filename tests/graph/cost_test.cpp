#include "ravnest/graph/cost/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "ravnest/base/error.h"
#include "ravnest/graph/text/text.h"

namespace ravnest::graph {
namespace {

GraphCosts costs_of(const Program& program) {
  return estimate_costs(program.graph, program.graph.hints());
}

std::int64_t activations_of(const std::string& text) {
  const Program program = parse_text(text);
  const GraphCosts costs = costs_of(program);
  EXPECT_TRUE(costs.known) << text;
  return activation_bytes(costs, 0, costs.ops.size());
}

// What one op keeps, all of whose inputs need a gradient: they are results of an
// add, which keeps nothing.
struct KeepCase {
  const char* name;
  const char* inputs;  // types of %x0, %x1, …, separated by ';'
  const char* op;
  std::int64_t nbytes;  // as PyTorch 2.13 keeps on a CPU
};

std::string program_of(const KeepCase& keep) {
  std::string inputs;
  std::string adds;
  std::string rest = keep.inputs;
  for (int index = 0; !rest.empty(); ++index) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    const std::string type = rest.substr(0, end);
    const bool is_float = type.starts_with("f");
    inputs += concat("  input %", is_float ? "i" : "x", index, " : ", type, "\n");
    if (is_float) {
      adds +=
          concat("  %x", index, " : ", type, " = aten.add.Tensor(self=%i", index, ", other=%p)\n");
    }
    rest.erase(0, end + 1);
  }
  return concat("weight parameter \"p\" : f32[]\ngraph\n  parameter %p : f32[] = \"p\"\n", inputs,
                adds, "  ", keep.op, "\n  return %y\n");
}

class KeepsTest : public testing::TestWithParam<KeepCase> {};

TEST_P(KeepsTest, WhatPyTorchKeeps) {
  EXPECT_EQ(activations_of(program_of(GetParam())), GetParam().nbytes) << program_of(GetParam());
}

constexpr std::int64_t kImage = 4 * 6 * 8 * 8 * 4;

INSTANTIATE_TEST_SUITE_P(
    Ops, KeepsTest,
    testing::Values(
        KeepCase{"relu", "f32[4, 6, 8, 8]", "%y : f32[4, 6, 8, 8] = aten.relu.default(self=%x0)",
                 kImage},
        KeepCase{"relu_in_place", "f32[4, 6, 8, 8]",
                 "%y : f32[4, 6, 8, 8] = aten.relu_.default(self=%x0)", kImage},
        KeepCase{"silu_in_place", "f32[4, 6, 8, 8]",
                 "%y : f32[4, 6, 8, 8] = aten.silu_.default(self=%x0)", kImage},
        KeepCase{"gelu", "f32[4, 6, 8, 8]", "%y : f32[4, 6, 8, 8] = aten.gelu.default(self=%x0)",
                 kImage},
        KeepCase{"neg", "f32[4, 6, 8, 8]", "%y : f32[4, 6, 8, 8] = aten.neg.default(self=%x0)", 0},
        KeepCase{"mul_by_number", "f32[4, 6, 8, 8]",
                 "%y : f32[4, 6, 8, 8] = aten.mul.Tensor(self=%x0, other=2.0)", 0},
        KeepCase{"mul", "f32[4, 8];f32[4, 8]",
                 "%y : f32[4, 8] = aten.mul.Tensor(self=%x0, other=%x1)", 256},
        KeepCase{"dropout", "f32[4, 6, 8, 8]",
                 "%y : f32[4, 6, 8, 8] = aten.dropout.default(input=%x0, p=0.3, train=true)",
                 kImage},
        KeepCase{"dropout_off", "f32[4, 6, 8, 8]",
                 "%y : f32[4, 6, 8, 8] = aten.dropout.default(input=%x0, p=0.3, train=false)", 0},
        KeepCase{"dropout_of_channels", "f32[4, 6, 8, 8]",
                 "%y : f32[4, 6, 8, 8] = aten.feature_dropout.default(input=%x0, p=0.3, "
                 "train=true)",
                 96},
        KeepCase{"max_pool", "f32[4, 6, 8, 8]",
                 "%y : f32[4, 6, 4, 4] = aten.max_pool2d.default(self=%x0, kernel_size=[2, 2])",
                 kImage + 3072},
        KeepCase{"pool_to_one", "f32[4, 6, 8, 8]",
                 "%y : f32[4, 6, 1, 1] = aten.adaptive_avg_pool2d.default(self=%x0, "
                 "output_size=[1, 1])",
                 0},
        KeepCase{"batch_norm", "f32[4, 6, 8, 8]",
                 "%y : f32[4, 6, 8, 8] = aten.batch_norm.default(input=%x0, weight=none, "
                 "bias=none, running_mean=none, running_var=none, training=true, momentum=0.1, "
                 "eps=1e-05, cudnn_enabled=false)",
                 kImage + 48},
        KeepCase{"layer_norm", "f32[4, 6, 8, 8]",
                 "%y : f32[4, 6, 8, 8] = aten.layer_norm.default(input=%x0, normalized_shape=[8])",
                 kImage + 2 * 768},
        KeepCase{"group_norm", "f32[4, 6, 8, 8]",
                 "%y : f32[4, 6, 8, 8] = aten.group_norm.default(input=%x0, num_groups=2)",
                 kImage + 64},
        KeepCase{"linear", "f32[4, 6, 8];f32[10, 8]",
                 "%y : f32[4, 6, 10] = aten.linear.default(input=%x0, weight=%x1)", 768 + 320},
        KeepCase{"linear_of_transposed", "f32[4, 6, 8] strides(8, 32, 1);f32[10, 8]",
                 "%y : f32[4, 6, 10] = aten.linear.default(input=%x0, weight=%x1)", 768 + 320},
        KeepCase{"matmul_broadcast", "f32[2, 3, 4, 5];f32[3, 5, 6]",
                 "%y : f32[2, 3, 4, 6] = aten.matmul.default(self=%x0, other=%x1)", 480 + 720},
        KeepCase{"conv_same_even", "f32[4, 6, 8, 8];f32[5, 6, 4, 4]",
                 "%y : f32[4, 5, 8, 8] = aten.conv2d.padding(input=%x0, weight=%x1, bias=none, "
                 "stride=[1, 1], padding=\"same\")",
                 7776 + 1920},
        KeepCase{"attention", "f32[2, 3, 16, 8];f32[2, 3, 16, 8];f32[2, 3, 16, 8]",
                 "%y : f32[2, 3, 16, 8] = aten.scaled_dot_product_attention.default(query=%x0, "
                 "key=%x1, value=%x2)",
                 4 * 3072 + 384},
        KeepCase{"attention_masked",
                 "f32[2, 3, 16, 8];f32[2, 3, 16, 8];f32[2, 3, 16, 8];bool[16, 16]",
                 "%y : f32[2, 3, 16, 8] = aten.scaled_dot_product_attention.default(query=%x0, "
                 "key=%x1, value=%x2, attn_mask=%x3)",
                 4 * 3072 + 384 + 1024},
        KeepCase{"attention_with_dropout", "f32[2, 3, 16, 8];f32[2, 3, 16, 8];f32[2, 3, 16, 8]",
                 "%y : f32[2, 3, 16, 8] = aten.scaled_dot_product_attention.default(query=%x0, "
                 "key=%x1, value=%x2, dropout_p=0.1)",
                 3 * 3072 + 3 * 6144},
        KeepCase{"cross_entropy", "f32[24, 8];i64[24]",
                 "%y : f32[] = aten.cross_entropy_loss.default(self=%x0, target=%x1)", 768 + 192},
        KeepCase{"broadcast_then_mse", "f32[4, 8];f32[4, 8]",
                 "[%a : f32[4, 8], %b : f32[4, 8]] = "
                 "aten.broadcast_tensors.default(tensors=[%x0, %x1])\n"
                 "  %y : f32[] = aten.mse_loss.default(self=%a, target=%b)",
                 256},
        KeepCase{"einsum", "f32[2, 4, 3, 5];f32[2, 7, 3, 5]",
                 "%y : f32[2, 3, 4, 7] = aten.einsum.default(equation=\"bihd,bjhd->bhij\", "
                 "tensors=[%x0, %x1])",
                 480 + 840},
        KeepCase{"gather", "f32[4, 8];i64[4, 2]",
                 "%y : f32[4, 2] = aten.gather.default(self=%x0, dim=1, index=%x1)", 128 + 64},
        KeepCase{"gru", "f32[4, 5, 6];f32[1, 4, 8];f32[24, 6];f32[24, 8]",
                 "%y : f32[4, 5, 8], %h : f32[1, 4, 8] = aten.gru.input(input=%x0, hx=%x1, "
                 "params=[%x2, %x3], has_biases=false, num_layers=1, dropout=0.0, train=true, "
                 "bidirectional=false, batch_first=true)",
                 4960},
        KeepCase{"unknown_op", "f32[4, 8];f32[4, 8]",
                 "%y : f32[4, 8] = aten.some_new_op.default(self=%x0, other=%x1)", 3 * 128}),
    [](const testing::TestParamInfo<KeepCase>& instance) { return instance.param.name; });

TEST(Cost, KeepsAnOperandOnlyForTheGradientOfTheOther) {
  const std::string head =
      "weight parameter \"w\" : f32[10, 8]\nweight parameter \"v\" : f32[10, 8] no_grad\ngraph\n"
      "  parameter %w : f32[10, 8] = \"w\"\n  parameter %v : f32[10, 8] no_grad = \"v\"\n"
      "  input %x : f32[4, 8]\n";
  const auto linear = [&](const std::string& weight) {
    return activations_of(head + "  %y : f32[4, 10] = aten.linear.default(input=%x, weight=%" +
                          weight + ")\n  return %y\n");
  };
  EXPECT_EQ(linear("w"), 4 * 8 * 4);
  EXPECT_EQ(linear("v"), 0);
}

TEST(Cost, CountsAStorageOnceThroughViewsAndInPlaceOps) {
  const std::int64_t base = 2L * 3 * 8 * 4;
  EXPECT_EQ(activations_of(R"(
weight parameter "w" : f32[8]
graph
  parameter %w : f32[8] = "w"
  input %x : f32[2, 3, 8]
  %a : f32[2, 3, 8] = aten.add.Tensor(self=%x, other=%w)
  [%b : f32[2, 3, 4] strides(24, 8, 1), %c : f32[2, 3, 4] strides(24, 8, 1) offset(4)] = aten.split.Tensor(self=%a, split_size=4, dim=2)
  %d : f32[2, 3, 4] strides(24, 8, 1) = aten.relu_.default(self=%b)
  %e : f32[2, 4, 3] strides(24, 1, 8) offset(4) = aten.transpose.int(self=%c, dim0=1, dim1=2)
  %f : f32[2, 4, 3] strides(24, 1, 8) = aten.sin.default(self=%e)
  return %d, %f
)"),
            base);
}

TEST(Cost, FollowsAGradientThroughAnInPlaceWriteToAView) {
  const Program program = parse_text(R"(
weight parameter "w" : f32[4]
graph
  parameter %w : f32[4] = "w"
  input %x : f32[4]
  %base : f32[2, 4] = aten.zeros.default(size=[2, 4])
  %row : f32[4] = aten.select.int(self=%base, dim=0, index=0)
  %written : f32[4] = aten.copy_.default(self=%row, src=%w)
  %y : f32[2, 4] = aten.sin.default(self=%base)
  %cut : f32[2, 4] = aten.detach.default(self=%y)
  %z : f32[2, 4] = aten.exp.default(self=%cut)
  return %z
)");
  const GraphCosts costs = costs_of(program);
  const ValueId y = program.graph.find_value("y").value();
  const ValueId z = program.graph.find_value("z").value();
  EXPECT_TRUE(costs.needs_grad[y]);
  EXPECT_FALSE(costs.needs_grad[z]);
  EXPECT_EQ(activation_bytes(costs, 0, costs.ops.size()), 32);  // %base, for the sine
}

struct FlopsCase {
  const char* name;
  const char* text;
  std::int64_t forward;
  std::int64_t backward;
};

class FlopsTest : public testing::TestWithParam<FlopsCase> {};

// The numbers are those of torch.utils.flop_counter.
TEST_P(FlopsTest, CountsAsPyTorchDoes) {
  const Program program = parse_text(std::string("weight parameter \"w\" : f32[]\ngraph\n") +
                                     GetParam().text + "\n  return %y\n");
  const GraphCosts costs = costs_of(program);
  ASSERT_TRUE(costs.known);
  EXPECT_EQ(costs.ops[0].flops, GetParam().forward);
  EXPECT_EQ(costs.ops[0].backward_flops, GetParam().backward);
}

INSTANTIATE_TEST_SUITE_P(
    Ops, FlopsTest,
    testing::Values(
        FlopsCase{"conv",
                  "parameter %w : f32[16, 8, 3, 3] = \"w\"\n input %x : f32[4, 8, 16, 16]\n"
                  "%y : f32[4, 16, 16, 16] = aten.conv2d.default(input=%x, weight=%w)",
                  2359296, 2359296},
        FlopsCase{"grouped_conv",
                  "parameter %w : f32[16, 2, 3, 3] = \"w\"\n input %x : f32[4, 8, 16, 16]\n"
                  "%y : f32[4, 16, 14, 14] = aten.conv2d.default(input=%x, weight=%w, groups=4)",
                  451584, 451584},
        FlopsCase{"transposed_conv",
                  "parameter %w : f32[8, 4, 3, 3] = \"w\"\n input %x : f32[4, 8, 16, 16]\n"
                  "%y : f32[4, 4, 33, 33] = aten.conv_transpose2d.input(input=%x, weight=%w)",
                  589824, 589824},
        FlopsCase{"linear",
                  "parameter %w : f32[10, 8] = \"w\"\n input %x : f32[4, 6, 8]\n"
                  "%y : f32[4, 6, 10] = aten.linear.default(input=%x, weight=%w)",
                  3840, 3840},
        FlopsCase{"batched_product",
                  "parameter %a : f32[2, 3, 4, 5] = \"w\"\n parameter %b : f32[2, 3, 5, 6] = "
                  "\"w\"\n%y : f32[2, 3, 4, 6] = aten.matmul.default(self=%a, other=%b)",
                  1440, 2880},
        FlopsCase{"einsum",
                  "parameter %a : f32[2, 3, 4, 5] = \"w\"\n parameter %b : f32[2, 3, 7, 5] = "
                  "\"w\"\n%y : f32[2, 3, 4, 7] = aten.einsum.default("
                  "equation=\"bhid,bhjd->bhij\", tensors=[%a, %b])",
                  1680, 3360},
        FlopsCase{"attention",
                  "parameter %q : f32[2, 3, 16, 8] = \"w\"\n%y : f32[2, 3, 16, 8] = "
                  "aten.scaled_dot_product_attention.default(query=%q, key=%q, value=%q)",
                  49152, 98304},
        FlopsCase{"embedding",
                  "parameter %w : f32[50, 8] = \"w\"\n input %x : i64[4]\n"
                  "%y : f32[4, 8] = aten.embedding.default(weight=%w, indices=%x)",
                  0, 0},
        FlopsCase{"frozen", "input %x : f32[4, 8]\n%y : f32[4, 8] = aten.relu.default(self=%x)", 32,
                  0}),
    [](const testing::TestParamInfo<FlopsCase>& instance) { return instance.param.name; });

const char* const kChain = R"(
weight parameter "a" : f32[8, 8] key "0"
weight parameter "tied" : f32[8, 8] key "0"
weight parameter "frozen" : f32[8] no_grad key "1"
weight buffer "count" : i64[] key "2"
graph
  symbol s0 = 4
  parameter %a : f32[8, 8] = "a"
  parameter %f : f32[8] no_grad = "frozen"
  input %x : f32[s0, 8]
  %h : f32[s0, 8] = aten.linear.default(input=%x, weight=%a) in "one"
  %s : f32[s0, 8] = aten.add.Tensor(self=%h, other=%f) in "one"
  %r : f32[s0, 8] = aten.relu.default(self=%s) in "two"
  %y : f32[s0, 8] = aten.linear.default(input=%r, weight=%a) in "two"
  return %y
)";

TEST(Cost, AddsUpTheMemoryOfTraining) {
  const Program program = parse_text(kChain);
  const GraphCosts costs = estimate_costs(program.graph, {{"s0", 100}});
  const MemoryEstimate memory =
      estimate_memory(program, program.graph, costs, OptimizerKind::kAdam);
  const std::int64_t values = 100L * 8 * 4;
  EXPECT_EQ(memory.weights, 256 + 32);
  EXPECT_EQ(memory.buffers, 8);
  EXPECT_EQ(memory.gradients, 256);
  EXPECT_EQ(memory.optimizer, 512);
  EXPECT_EQ(memory.activations, 2 * values);  // %x and %r
  EXPECT_EQ(memory.inputs_outputs, values);   // %y
  // The gradients of %y and %r, and a gradient of the weight before it is added.
  EXPECT_EQ(memory.largest_temporary, 2 * values + 256);
  EXPECT_EQ(memory.total, 288 + 8 + 256 + 512 + 5 * values + 256);
}

TEST(Cost, OptimizersAreNamed) {
  for (const char* name : {"sgd", "momentum", "adam"}) {
    EXPECT_EQ(name_of(find_optimizer(name).value()), name);
  }
  EXPECT_EQ(state_per_parameter_byte(OptimizerKind::kSgd), 0);
  EXPECT_EQ(state_per_parameter_byte(OptimizerKind::kMomentum), 1);
  EXPECT_FALSE(find_optimizer("Adam").has_value());
}

TEST(Cost, SaysWhenShapesAreNotKnown) {
  const Program program = parse_text(R"(
weight parameter "w" : f32[8]
graph
  parameter %w : f32[8] = "w"
  input %x : ?
  %y : ? = aten.mul.Tensor(self=%x, other=%w)
  return %y
)");
  const GraphCosts costs = costs_of(program);
  EXPECT_FALSE(costs.known);
  EXPECT_EQ(costs.ops[0].flops, 0);
  EXPECT_EQ(activation_bytes(costs, 0, 1), 0);
}

TEST(Cost, StopsAtTheLargestNumberOnAbsurdShapes) {
  const Program program = parse_text(R"(
weight parameter "w" : f32[1152921504606846976]
graph
  parameter %w : f32[1152921504606846976] = "w"
  input %x : f32[1152921504606846976]
  input %e : f32[0, 4611686018427387904, 4611686018427387904, 3] strides(1, 1, 1, 1)
  %a : f32[1152921504606846976] = aten.mul.Tensor(self=%x, other=%w)
  %b : f32[1152921504606846976] = aten.sin.default(self=%a)
  %c : f32[1152921504606846976] = aten.layer_norm.default(input=%b, normalized_shape=[-3])
  %d : f32[1152921504606846976] = aten.group_norm.default(input=%c, num_groups=-9223372036854775808)
  %f : f32[0, 4611686018427387904, 4611686018427387904, 3] strides(1, 1, 1, 1) = aten.mul.Tensor(self=%e, other=%w)
  %y : f32[0, 4611686018427387904, 4611686018427387904, 3] strides(1, 1, 1, 1) = aten.conv2d.padding(input=%f, weight=%f, padding="same")
  return %y, %d
)");
  const GraphCosts costs = costs_of(program);
  const MemoryEstimate memory =
      estimate_memory(program, program.graph, costs, OptimizerKind::kAdam);
  EXPECT_EQ(memory.total, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(memory.activations, std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace ravnest::graph
