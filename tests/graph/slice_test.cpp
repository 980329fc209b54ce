#include "ravnest/graph/slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>

#include "ravnest/graph/cost/cost.h"
#include "ravnest/graph/lint.h"
#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/graph/text/text.h"

namespace ravnest::graph {
namespace {

using Cuts = std::vector<std::size_t>;

std::string source_text(const Source& source) {
  return (source.kind == Source::Kind::kModel ? "model " : "previous ") +
         std::to_string(source.index);
}

std::string graph_text(Graph graph) {
  graph.in_spec.clear();
  graph.out_spec.clear();
  return to_text(graph);
}

// The stages one after the other: where inputs come from, then the graph.
std::string sliced(const std::string& text, const Cuts& cuts) {
  const Program program = parse_text(text);
  lint(program, "whole");
  std::string out;
  for (const Stage& stage : slice(program, cuts)) {
    lint(stage.program, "stage");
    EXPECT_EQ(stage.sources.size(), stage.program.graph.user_inputs().size());
    out += "from";
    for (const Source& source : stage.sources) {
      out += " " + source_text(source);
    }
    out += "\n" + graph_text(stage.program.graph);
  }
  return out;
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

std::vector<std::string> weights_of(const Stage& stage) {
  std::vector<std::string> names;
  for (const Weight& weight : stage.program.weights) {
    names.push_back(weight.name);
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(Slice, WithoutCutsIsTheWhole) {
  const std::string text =
      "graph\n  input %x : ?\n  %y : ? = aten.relu.default(self=%x)\n  return %y, [%x]\n";
  EXPECT_EQ(sliced(text, {}), "from model 0\n" + text);
}

TEST(Slice, PassesOnWhatTheNextStageUses) {
  EXPECT_EQ(sliced(R"(graph
  input %x : ?
  %a : ? = aten.relu.default(self=%x)
  %b : ? = aten.tanh.default(self=%x)
  %c : ? = aten.add.Tensor(self=%a, other=%b)
  return %c
)",
                   {2}),
            R"(from model 0
graph
  input %x : ?
  %a : ? = aten.relu.default(self=%x)
  %b : ? = aten.tanh.default(self=%x)
  return %a, %b
from previous 0 previous 1
graph
  input %a : ?
  input %b : ?
  %c : ? = aten.add.Tensor(self=%a, other=%b)
  return %c
)");
}

TEST(Slice, RoutesSkipConnectionsThroughTheStagesBetween) {
  EXPECT_EQ(sliced(R"(graph
  input %x : ?
  %skip : ? = aten.relu.default(self=%x)
  %b : ? = aten.tanh.default(self=%skip)
  %c : ? = aten.neg.default(self=%b)
  %d : ? = aten.add.Tensor(self=%c, other=%skip)
  return %d
)",
                   {1, 2, 3}),
            R"(from model 0
graph
  input %x : ?
  %skip : ? = aten.relu.default(self=%x)
  return %skip
from previous 0
graph
  input %skip : ?
  %b : ? = aten.tanh.default(self=%skip)
  return %skip, %b
from previous 0 previous 1
graph
  input %skip : ?
  input %b : ?
  %c : ? = aten.neg.default(self=%b)
  return %skip, %c
from previous 0 previous 1
graph
  input %skip : ?
  input %c : ?
  %d : ? = aten.add.Tensor(self=%c, other=%skip)
  return %d
)");
}

TEST(Slice, SendsModelInputsStraightToWhereTheyAreUsed) {
  EXPECT_EQ(sliced(R"(graph
  input %x : ?
  literal "flag" = true
  input %mask : ?
  %a : ? = aten.relu.default(self=%x)
  %b : ? = aten.tanh.default(self=%a)
  %c : ? = aten.mul.Tensor(self=%b, other=%mask)
  return %c, %x
)",
                   {1, 2}),
            R"(from model 0
graph
  input %x : ?
  %a : ? = aten.relu.default(self=%x)
  return %a
from previous 0
graph
  input %a : ?
  %b : ? = aten.tanh.default(self=%a)
  return %b
from model 0 model 2 previous 0
graph
  input %x : ?
  input %mask : ?
  input %b : ?
  %c : ? = aten.mul.Tensor(self=%b, other=%mask)
  return %c, %x
)");
}

const std::string kTied = R"(
weight parameter "in.weight" : f32[3, 3]
weight parameter "middle" : f32[3, 3]
weight buffer "unused" : f32[7]
weight parameter "out.weight" : f32[3, 3] key "in.weight"
graph
  parameter %w : f32[3, 3] = "in.weight"
  parameter %m : f32[3, 3] = "middle"
  input %x : f32[2, 3]
  %a : f32[2, 3] = aten.linear.default(input=%x, weight=%w)
  %b : f32[2, 3] = aten.linear.default(input=%a, weight=%m)
  %c : f32[2, 3] = aten.linear.default(input=%b, weight=%w)
  return %c
)";

TEST(Slice, GivesTiedWeightsToEachStageThatUsesThem) {
  const auto stages = slice(parse_text(kTied), {1, 2});
  EXPECT_EQ(weights_of(stages[0]), (Names{"in.weight", "out.weight"}));
  EXPECT_EQ(weights_of(stages[1]), (Names{"middle"}));
  EXPECT_EQ(weights_of(stages[2]), (Names{"in.weight", "unused", "out.weight"}));
  EXPECT_EQ(stages[0].program.weights[1].storage_key, "in.weight");
  EXPECT_EQ(stages[2].program.weights[2].storage_key, "in.weight");
}

TEST(Slice, KeepsTheBytesOfWeights) {
  Program program = parse_text(kTied);
  for (Weight& weight : program.weights) {
    weight.storage = Bytes::take(std::vector<std::byte>(36));
  }
  const auto stages = slice(program, {1});
  EXPECT_EQ(stages[0].program.weights[0].storage.data(), program.weights[0].storage.data());
}

TEST(Slice, ClonesWhatIsChangedInPlaceAfterTheCut) {
  EXPECT_EQ(sliced(R"(graph
  input %x : ?
  %a : ? = aten.neg.default(self=%x)
  %b : ? = aten.relu_.default(self=%a)
  %c : ? = aten.add.Tensor(self=%a, other=%b)
  return %c
)",
                   {1}),
            R"(from model 0
graph
  input %x : ?
  %a : ? = aten.neg.default(self=%x)
  return %a
from previous 0
graph
  input %a : ?
  %a_copy : ? = aten.clone.default(self=%a)
  %b : ? = aten.relu_.default(self=%a_copy)
  %c : ? = aten.add.Tensor(self=%a_copy, other=%b)
  return %c
)");
}

TEST(Slice, SendsWhatWasChangedInPlaceBeforeTheCutOnce) {
  EXPECT_EQ(sliced(R"(graph
  input %x : ?
  %a : ? = aten.neg.default(self=%x)
  %b : ? = aten.relu_.default(self=%a)
  %c : ? = aten.add.Tensor(self=%a, other=%b)
  return %c
)",
                   {2}),
            R"(from model 0
graph
  input %x : ?
  %a : ? = aten.neg.default(self=%x)
  %b : ? = aten.relu_.default(self=%a)
  return %a
from previous 0
graph
  input %a : ?
  %c : ? = aten.add.Tensor(self=%a, other=%a)
  return %c
)");
}

TEST(Slice, MakesViewsOfOneChangedMemoryAgainFromItsRoot) {
  EXPECT_EQ(sliced(R"(graph
  input %x : ?
  %r : ? = aten.neg.default(self=%x)
  %a : ? = aten.t.default(self=%r)
  %b : ? = aten.view.default(self=%r, size=[4])
  %c : ? = aten.mul_.Tensor(self=%b, other=2)
  %d : ? = aten.tanh.default(self=%a)
  return %d
)",
                   {3}),
            R"(from model 0
graph
  input %x : ?
  %r : ? = aten.neg.default(self=%x)
  %a : ? = aten.t.default(self=%r)
  %b : ? = aten.view.default(self=%r, size=[4])
  return %r
from previous 0
graph
  input %r : ?
  %r_copy : ? = aten.clone.default(self=%r)
  %b : ? = aten.view.default(self=%r_copy, size=[4])
  %c : ? = aten.mul_.Tensor(self=%b, other=2)
  %a : ? = aten.t.default(self=%r_copy)
  %d : ? = aten.tanh.default(self=%a)
  return %d
)");
}

TEST(Slice, AViewOfAModelInputFollowsItsChangeInALaterStage) {
  EXPECT_EQ(sliced(R"(graph
  input %x : ?
  %v : ? = aten.t.default(self=%x)
  %a : ? = aten.neg.default(self=%v)
  %b : ? = aten.relu_.default(self=%x)
  %c : ? = aten.add.Tensor(self=%v, other=%a)
  return %c
)",
                   {2}),
            R"(from model 0
graph
  input %x : ?
  %v : ? = aten.t.default(self=%x)
  %a : ? = aten.neg.default(self=%v)
  return %a
from model 0 previous 0
graph
  input %x : ?
  input %a : ?
  %b : ? = aten.relu_.default(self=%x)
  %v : ? = aten.t.default(self=%x)
  %c : ? = aten.add.Tensor(self=%v, other=%a)
  return %c
)");
}

TEST(Slice, AModelInputChangedInPlaceComesFromTheStageThatChangesIt) {
  EXPECT_EQ(sliced(R"(graph
  input %x : ?
  %a : ? = aten.relu_.default(self=%x)
  %b : ? = aten.neg.default(self=%a)
  %c : ? = aten.add.Tensor(self=%x, other=%b)
  return %c
)",
                   {1, 2}),
            R"(from model 0
graph
  input %x : ?
  %a : ? = aten.relu_.default(self=%x)
  return %x
from previous 0
graph
  input %x : ?
  %b : ? = aten.neg.default(self=%x)
  return %x, %b
from previous 0 previous 1
graph
  input %x : ?
  input %b : ?
  %c : ? = aten.add.Tensor(self=%x, other=%b)
  return %c
)");
}

TEST(Slice, ChangesBuffersWhereTheirOpsAre) {
  const auto stages = slice(parse_text(R"(
weight buffer "n" : i64[]
weight buffer "m" : f32[3]
graph
  buffer %n : i64[] = "n"
  buffer %m : f32[3] = "m"
  input %x : f32[2, 3]
  %a : f32[2, 3] = aten.relu.default(self=%x)
  %n2 : i64[] = aten.add_.Tensor(self=%n, other=1)
  %b : f32[2, 3] = aten.batch_norm.default(input=%a, weight=none, bias=none, running_mean=%m, running_var=none, training=true, momentum=0.1, eps=1e-05, cudnn_enabled=true)
  return %b
)"),
                            {1});
  EXPECT_EQ(weights_of(stages[0]), Names{});
  EXPECT_EQ(weights_of(stages[1]), (Names{"n", "m"}));
  EXPECT_EQ(graph_text(stages[1].program.graph), R"(graph
  buffer %n : i64[] = "n"
  buffer %m : f32[3] = "m"
  input %a : f32[2, 3]
  %n2 : i64[] = aten.add_.Tensor(self=%n, other=1)
  %b : f32[2, 3] = aten.batch_norm.default(input=%a, weight=none, bias=none, running_mean=%m, running_var=none, training=true, momentum=0.1, eps=1e-05, cudnn_enabled=true)
  return %b
)");
}

TEST(Slice, SendsSizesAcross) {
  EXPECT_EQ(sliced(R"(graph
  symbol s0 = 4 in [2, inf]
  symbol s1 = 9
  input %x : f32[s0, 3]
  %n : int(s0) = aten.sym_size.int(self=%x, dim=0)
  %m : int(3*s0) = _operator.mul(a=%n, b=3)
  %y : f32[3*s0] = aten.view.default(self=%x, size=[%m])
  return %y
)",
                   {2}),
            R"(from model 0
graph
  symbol s0 = 4 in [2, inf]
  input %x : f32[s0, 3]
  %n : int(s0) = aten.sym_size.int(self=%x, dim=0)
  %m : int(3*s0) = _operator.mul(a=%n, b=3)
  return %m
from model 0 previous 0
graph
  symbol s0 = 4 in [2, inf]
  input %x : f32[s0, 3]
  input %m : int(3*s0)
  %y : f32[3*s0] = aten.view.default(self=%x, size=[%m])
  return %y
)");
}

TEST(Slice, CarriesOutputsThatAreThereEarlyToTheEnd) {
  EXPECT_EQ(sliced(R"(graph
  input %x : ?
  [%a : ?, %b : ?] = aten.split.Tensor(self=%x, split_size=1)
  %c : ? = aten.neg.default(self=%a)
  return [%b, %c], none, %a, 3
)",
                   {1}),
            R"(from model 0
graph
  input %x : ?
  [%a : ?, %b : ?] = aten.split.Tensor(self=%x, split_size=1)
  return %a, %b
from previous 0 previous 1
graph
  input %a : ?
  input %b : ?
  %c : ? = aten.neg.default(self=%a)
  return [%b, %c], none, %a, 3
)");
}

TEST(Slice, KeepsTheStructureOfOutputsAndTheLossOnTheLastStage) {
  const auto stages = slice(parse_text(R"(
metadata "loss" = "true"
graph
  input %x : ?
  %a : ? = aten.neg.default(self=%x)
  %b : ? = aten.neg.default(self=%a)
  return %b
  in_spec "in"
  out_spec "out"
)"),
                            {1});
  EXPECT_TRUE(stages[0].program.metadata.empty());
  EXPECT_EQ(stages[1].program.metadata.at("loss"), "true");
  EXPECT_EQ(stages[0].program.graph.in_spec, flat_in_spec(1));
  EXPECT_EQ(stages[0].program.graph.out_spec, flat_out_spec(1));
  EXPECT_EQ(stages[1].program.graph.in_spec, flat_in_spec(1));
  EXPECT_EQ(stages[1].program.graph.out_spec, "out");
}

TEST(Slice, CutsTheEvalGraphWhereTheWeightsAre) {
  const std::string eval = R"(graph eval
  parameter %w : f32[3, 3] = "in.weight"
  parameter %m : f32[3, 3] = "middle"
  input %x : f32[2, 3]
  %b : f32[2, 3] = aten.linear.default(input=%x, weight=%m)
  %r : f32[2, 3] = aten.relu.default(self=%b)
  %c : f32[2, 3] = aten.linear.default(input=%r, weight=%w)
  return %c
)";
  const auto stages = slice(parse_text(kTied + eval), {1, 2});
  ASSERT_TRUE(stages[0].program.eval_graph.has_value());
  EXPECT_TRUE(stages[0].program.eval_graph->ops.empty());
  EXPECT_EQ(stages[1].program.eval_graph->ops.size(), 2U);
  EXPECT_EQ(stages[1].eval_sources, (std::vector<Source>{{Source::Kind::kModel, 0}}));
  EXPECT_EQ(stages[2].program.eval_graph->ops.size(), 1U);
  EXPECT_EQ(stages[2].eval_sources, (std::vector<Source>{{Source::Kind::kPrevious, 0}}));
  for (const Stage& stage : stages) {
    lint(stage.program, "stage");
  }
}

TEST(Slice, MovesWeightsOfTheEvalGraphThatGoesAgainstTheOrder) {
  const std::string text = R"(
weight parameter "a" : f32[3, 3]
weight parameter "b" : f32[3, 3]
graph
  parameter %a : f32[3, 3] = "a"
  parameter %b : f32[3, 3] = "b"
  input %x : f32[2, 3]
  %y : f32[2, 3] = aten.linear.default(input=%x, weight=%a)
  %z : f32[2, 3] = aten.linear.default(input=%y, weight=%b)
  return %z
graph eval
  parameter %a : f32[3, 3] = "a"
  parameter %b : f32[3, 3] = "b"
  input %x : f32[2, 3]
  %y : f32[2, 3] = aten.linear.default(input=%x, weight=%b)
  %z : f32[2, 3] = aten.linear.default(input=%y, weight=%a)
  return %z
)";
  const auto stages = slice(parse_text(text), {1});
  for (const Stage& stage : stages) {
    lint(stage.program, "stage");
  }
  EXPECT_EQ(weights_of(stages[1]), (Names{"a", "b"}));
  EXPECT_EQ(stages[1].program.eval_graph->ops.size(), 2U);
}

TEST(Slice, RefusesBadCuts) {
  const Program program = parse_text(R"(graph
  input %x : ?
  %a : ? = aten.neg.default(self=%x)
  %b : ? = aten.neg.default(self=%a)
  %c : ? = aten.neg.default(self=%b)
  return %c
)");
  for (const Cuts& cuts :
       {Cuts{0}, Cuts{3}, Cuts{1, 1}, Cuts{2, 1}, Cuts{1, 2, 3}, Cuts{SIZE_MAX}}) {
    EXPECT_NE(error_of([&] { slice(program, cuts); }).find("expected cuts between 1 and 2"),
              std::string::npos)
        << cuts.size();
  }
  EXPECT_NE(error_of([] { slice(Program(), {1}); }), "no error");
}

TEST(Slice, RefusesToSeparateMemoryThatMayOrMayNotBeShared) {
  const Program program = parse_text(R"(graph
  input %x : ?
  %r : ? = aten.neg.default(self=%x)
  %a : ? = aten.reshape.default(self=%r, shape=[4])
  %b : ? = aten.relu_.default(self=%r)
  %c : ? = aten.neg.default(self=%a)
  return %c
)");
  const std::string error = error_of([&] { slice(program, {2}); });
  EXPECT_NE(error.find("'a' may or may not share memory with 'r'"), std::string::npos) << error;
  EXPECT_EQ(error_of([&] { slice(program, {1}); }), "no error");
  EXPECT_EQ(error_of([&] { slice(program, {3}); }), "no error");
}

TEST(Slice, AReshapedModelInputMayBeChangedAfterTheCut) {
  EXPECT_EQ(sliced(R"(graph
  input %x : ?
  %a : ? = aten.reshape.default(self=%x, shape=[4])
  %b : ? = aten.relu_.default(self=%a)
  return %b
)",
                   {1}),
            R"(from model 0
graph
  input %x : ?
  %a : ? = aten.reshape.default(self=%x, shape=[4])
  return %a
from previous 0
graph
  input %a : ?
  %a_copy : ? = aten.clone.default(self=%a)
  %b : ? = aten.relu_.default(self=%a_copy)
  return %b
)");
}

// A chain of ops, every third of them a linear layer.
Program chain(std::size_t ops) {
  std::string text =
      "weight parameter \"w\" : f32[8, 8]\ngraph\n  parameter %w : f32[8, 8] = \"w\"\n"
      "  input %v0 : f32[4, 8]\n";
  for (std::size_t i = 0; i < ops; ++i) {
    text += "  %v" + std::to_string(i + 1) + " : f32[4, 8] = aten." +
            (i % 3 == 0 ? "linear.default(input=%v" + std::to_string(i) + ", weight=%w)\n"
                        : "relu.default(self=%v" + std::to_string(i) + ")\n");
  }
  return parse_text(text + "  return %v" + std::to_string(ops) + "\n");
}

TEST(NearEqualCuts, AreInOrderAndWithin) {
  for (const std::size_t ops : {1U, 2U, 7U, 30U}) {
    const Program program = chain(ops);
    for (std::size_t stages = 1; stages <= ops; ++stages) {
      const Cuts cuts = near_equal_cuts(program, stages);
      ASSERT_EQ(cuts.size(), stages - 1);
      EXPECT_EQ(slice(program, cuts).size(), stages);
    }
  }
}

TEST(NearEqualCuts, NoStageCostsMuchMoreThanItsShare) {
  const Program program = chain(30);
  const GraphCosts costs = estimate_costs(program.graph, {});
  const auto flops = [&](std::size_t first, std::size_t last) {
    std::int64_t sum = 0;
    for (std::size_t i = first; i < last; ++i) {
      sum += costs.ops[i].flops + costs.ops[i].backward_flops;
    }
    return sum;
  };
  const std::int64_t largest_op = flops(3, 4);
  for (std::size_t stages = 2; stages <= 5; ++stages) {
    Cuts cuts = near_equal_cuts(program, stages);
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(30);
    for (std::size_t i = 0; i < stages; ++i) {
      EXPECT_LE(flops(cuts[i], cuts[i + 1]),
                flops(0, 30) / static_cast<std::int64_t>(stages) + 2 * largest_op);
    }
  }
}

TEST(NearEqualCuts, RefusesMoreStagesThanOps) {
  EXPECT_NE(error_of([] { near_equal_cuts(chain(3), 4); }).find("between 1 and 3 stages, got 4"),
            std::string::npos);
  EXPECT_NE(error_of([] { near_equal_cuts(chain(3), 0); }), "no error");
}

}  // namespace
}  // namespace ravnest::graph
