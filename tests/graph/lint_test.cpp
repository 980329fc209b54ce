#include "ravnest/graph/lint.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "ravnest/graph/text/text.h"

namespace ravnest::graph {
namespace {

const std::string kGood = R"(
weight parameter "w" : f32[2, 3]
weight buffer "m" : f32[2]
graph
  symbol s0 = 4
  parameter %w : f32[2, 3] = "w"
  buffer %m : f32[2] = "m"
  input %x : f32[s0, 3]
  literal "flag" = true
  %n : int(s0) = aten.sym_size.int(self=%x, dim=0)
  %y : f32[s0, 2] = aten.linear.default(input=%x, weight=%w)
  [%a : f32[s0, 1], %b : ?] = aten.split.Tensor(self=%y, split_size=1, dim=1)
  %z : f32[s0, 2] = aten.zeros.default(size=[%n, 2])
  return %z, [%a, %b]
)";

std::string error_of(const Program& program) {
  try {
    lint(program, "label");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

// The good Program, changed, is refused for this reason.
void expect_refused(const std::function<void(Program&)>& change, const std::string& reason) {
  Program program = parse_text(kGood);
  change(program);
  const std::string error = error_of(program);
  EXPECT_TRUE(error.starts_with("[graph] 'label")) << error;
  EXPECT_NE(error.find(reason), std::string::npos) << error;
}

void expect_refused(const std::string& text, const std::string& reason) {
  expect_refused([&](Program& program) { program = parse_text(text); }, reason);
}

TEST(Lint, AcceptsAWellFormedProgram) {
  EXPECT_EQ(error_of(parse_text(kGood)), "no error");
  EXPECT_EQ(error_of(Program()), "no error");
}

TEST(Lint, RefusesUsesBeforeDefinitions) {
  expect_refused([](Program& program) { std::swap(program.graph.ops[1], program.graph.ops[2]); },
                 "op 1 (aten.split.Tensor): value 'y' is used before it is defined");
  expect_refused([](Program& program) { program.graph.ops.pop_back(); },
                 "outputs: value 'z' is used before it is defined");
  expect_refused(
      [](Program& program) {
        program.graph.inputs.pop_back();
        program.graph.inputs.pop_back();
      },
      "value 'x' is used before it is defined");
}

TEST(Lint, RefusesIdsThatAreNoValues) {
  expect_refused([](Program& program) { program.graph.outputs.push_back({Ref{1000}}); },
                 "without a name is used");
  expect_refused([](Program& program) { program.graph.ops[0].results[0].values[0] = UINT32_MAX; },
                 "without a name is defined");
  expect_refused([](Program& program) { program.graph.inputs[0].value = 1000; },
                 "without a name is defined");
}

TEST(Lint, RefusesValuesDefinedTwice) {
  expect_refused([](Program& program) { program.graph.ops.push_back(program.graph.ops[1]); },
                 "op 4 (aten.linear.default): value 'y' is defined twice");
  expect_refused([](Program& program) { program.graph.inputs.push_back(program.graph.inputs[0]); },
                 "inputs: value 'w' is defined twice");
}

TEST(Lint, RefusesNamesThatAreTakenOrEmpty) {
  expect_refused([](Program& program) { program.graph.values[1].name = "w"; },
                 "'w' is named twice");
  expect_refused([](Program& program) { program.graph.values[1].name = ""; }, "''");
  expect_refused([](Program& program) { program.weights[1].name = "w"; }, "'w' is there twice");
}

TEST(Lint, RefusesOperatorsOutsideTheList) {
  for (const char* target : {"aten.from_file.default", "aten.save.default", "mylib.relu.default",
                             "aten.relu", "", "_operator.call"}) {
    expect_refused([&](Program& program) { program.graph.ops[1].target = target; },
                   "not on the list of pure tensor operators");
  }
}

TEST(Lint, RefusesWeightsThatAreMissingOrDiffer) {
  expect_refused([](Program& program) { program.weights.erase(program.weights.begin()); },
                 "'w' is used but not stored");
  expect_refused([](Program& program) { program.weights[0].type.sizes[0] = 3; },
                 "another shape or dtype");
  expect_refused([](Program& program) { program.weights[0].type.dtype = DType::kFloat64; },
                 "another shape or dtype");
  expect_refused([](Program& program) { program.graph.values[0].kind = ValueKind::kInt; },
                 "another shape or dtype");
}

TEST(Lint, RefusesResultsOfTheWrongKind) {
  expect_refused("graph\n input %x : ?\n %n : ? = aten.sym_size.int(self=%x, dim=0)\n return",
                 "'n' is of the wrong kind");
  expect_refused("graph\n input %x : ?\n %y : int = aten.relu.default(self=%x)\n return",
                 "'y' is of the wrong kind");
}

TEST(Lint, RefusesTensorsNobodyCanHold) {
  expect_refused("graph\n input %x : f32[1000000, 1000000]\n return", "more than 512 GiB");
  expect_refused("graph\n symbol s0 = 1000000000000\n input %x : f32[s0]\n return",
                 "more than 512 GiB");
  expect_refused("graph\n input %x : f32[9223372036854775807, 2] strides(1, 1)\n return",
                 "more than 512 GiB");
  expect_refused("graph\n input %x : f32[-1]\n return", "negative size -1");
  expect_refused("graph\n %x : ? = aten.zeros.default(size=[1000000, 1000000])\n return",
                 "more than 512 GiB");
  expect_refused(
      "graph\n %x : ? = aten.empty.memory_format(size=[4611686018427387904, 8])\n return",
      "more than 512 GiB");
}

TEST(Lint, LooksAtTheEvalGraphToo) {
  expect_refused(
      [](Program& program) {
        program.eval_graph = program.graph;
        program.eval_graph->ops[1].target = "nothing.at.all";
      },
      "'label (eval)', op 1");
}

}  // namespace
}  // namespace ravnest::graph
