#include "ravnest/graph/mode.h"

#include <gtest/gtest.h>

#include <string>

#include "ravnest/graph/text/text.h"

namespace ravnest::graph {
namespace {

Graph graph_of(const std::string& statements) {
  return parse_text("graph\n" + statements + "\n").graph;
}

// The first op of these statements in evaluation, as text.
std::string eval_of(const std::string& op) {
  const std::string inputs = "  input %x : ?\n  input %m : ?\n";
  const std::string text =
      to_text(eval_form(graph_of(inputs + "  %y : ? = " + op + "\n  return %y")));
  const std::size_t begin = text.find("%y : ? = ") + 9;
  return text.substr(begin, text.find('\n', begin) - begin);
}

struct ModeCase {
  const char* name;
  const char* training;
  const char* eval;
};

class EvalFormTest : public testing::TestWithParam<ModeCase> {};

TEST_P(EvalFormTest, SwitchesTheOperatorAsEvalDoes) {
  EXPECT_EQ(eval_of(GetParam().training), GetParam().eval);
  EXPECT_EQ(eval_of(GetParam().eval), GetParam().eval) << "twice is as once";
}

INSTANTIATE_TEST_SUITE_P(
    Families, EvalFormTest,
    testing::Values(
        ModeCase{"dropout", "aten.dropout.default(input=%x, p=0.5, train=true)",
                 "aten.dropout.default(input=%x, p=0.5, train=false)"},
        ModeCase{"dropout_in_place", "aten.dropout_.default(self=%x, p=0.5, train=true)",
                 "aten.dropout_.default(self=%x, p=0.5, train=false)"},
        ModeCase{"alpha_dropout", "aten.alpha_dropout.default(input=%x, p=0.5, train=true)",
                 "aten.alpha_dropout.default(input=%x, p=0.5, train=false)"},
        ModeCase{"feature_dropout", "aten.feature_dropout.default(input=%x, p=0.5, train=true)",
                 "aten.feature_dropout.default(input=%x, p=0.5, train=false)"},
        ModeCase{"feature_alpha_dropout",
                 "aten.feature_alpha_dropout.default(input=%x, p=0.5, train=true)",
                 "aten.feature_alpha_dropout.default(input=%x, p=0.5, train=false)"},
        ModeCase{"dropout_that_was_off", "aten.dropout.default(input=%x, p=0.5, train=false)",
                 "aten.dropout.default(input=%x, p=0.5, train=false)"},
        ModeCase{
            "batch_norm",
            "aten.batch_norm.default(input=%x, running_mean=%m, running_var=%m, training=true)",
            "aten.batch_norm.default(input=%x, running_mean=%m, running_var=%m, training=false)"},
        ModeCase{
            "frozen_batch_norm",
            "aten.batch_norm.default(input=%x, running_mean=%m, running_var=%m, training=false)",
            "aten.batch_norm.default(input=%x, running_mean=%m, running_var=%m, training=false)"},
        ModeCase{
            "batch_norm_without_statistics",
            "aten.batch_norm.default(input=%x, running_mean=none, running_var=none, training=true)",
            "aten.batch_norm.default(input=%x, running_mean=none, running_var=none, "
            "training=true)"},
        ModeCase{"instance_norm",
                 "aten.instance_norm.default(input=%x, running_mean=%m, running_var=%m, "
                 "use_input_stats=true)",
                 "aten.instance_norm.default(input=%x, running_mean=%m, running_var=%m, "
                 "use_input_stats=false)"},
        ModeCase{"instance_norm_without_statistics",
                 "aten.instance_norm.default(input=%x, running_mean=none, running_var=none, "
                 "use_input_stats=true)",
                 "aten.instance_norm.default(input=%x, running_mean=none, running_var=none, "
                 "use_input_stats=true)"},
        ModeCase{"rrelu", "aten.rrelu.default(self=%x, lower=0.1, upper=0.3, training=true)",
                 "aten.rrelu.default(self=%x, lower=0.1, upper=0.3, training=false)"},
        ModeCase{"gru", "aten.gru.input(input=%x, hx=%m, dropout=0.2, train=true)",
                 "aten.gru.input(input=%x, hx=%m, dropout=0.2, train=false)"},
        ModeCase{"rnn", "aten.rnn_tanh.input(input=%x, hx=%m, dropout=0.2, train=true)",
                 "aten.rnn_tanh.input(input=%x, hx=%m, dropout=0.2, train=false)"},
        ModeCase{"attention",
                 "aten.scaled_dot_product_attention.default(query=%x, key=%x, value=%x, "
                 "attn_mask=none, dropout_p=0.1)",
                 "aten.scaled_dot_product_attention.default(query=%x, key=%x, value=%x, "
                 "attn_mask=none, dropout_p=0.0)"},
        ModeCase{"what_has_no_mode", "aten.relu.default(self=%x)", "aten.relu.default(self=%x)"}),
    [](const auto& spec) { return std::string(spec.param.name); });

const std::string kCounting = R"(
  buffer %n : i64[] = "bn.num_batches_tracked"
  buffer %other : i64[] = "steps"
  input %x : ?
  %n2 : i64[] = aten.add_.Tensor(self=%n, other=1)
  %o2 : i64[] = aten.add_.Tensor(self=%other, other=1)
  %y : ? = aten.relu.default(self=%x)
)";

TEST(Mode, CountsNoBatchesInEvaluation) {
  const Graph eval = eval_form(graph_of(kCounting + "  return %y"));
  ASSERT_EQ(eval.ops.size(), 2U);
  EXPECT_EQ(eval.ops[0].find_argument("self")->find_ref()->id, eval.find_value("other"));
  EXPECT_EQ(eval.ops[1].target, "aten.relu.default");
}

TEST(Mode, KeepsACountThatIsUsed) {
  EXPECT_EQ(eval_form(graph_of(kCounting + "  return %y, %n2")).ops.size(), 3U);
}

TEST(Mode, LeavesTheTrainingGraphAlone) {
  const Graph graph = graph_of(kCounting + "  return %y");
  const Graph before = graph;
  eval_form(graph);
  EXPECT_EQ(graph, before);
}

bool same(const std::string& a, const std::string& b) {
  return computes_same(graph_of(a), graph_of(b));
}

const std::string kPlain = "input %x : ?\n%y : ? = aten.relu.default(self=%x)\nreturn %y";

TEST(ComputesSame, WhateverTheNamesAre) {
  EXPECT_TRUE(same(kPlain, kPlain));
  EXPECT_TRUE(same(kPlain, "input %a : ?\n%b : ? = aten.relu.default(self=%a)\nreturn %b"));
}

TEST(ComputesSame, WhateverDropoutThatIsOff) {
  const std::string with =
      "input %x : ?\n%d : ? = aten.dropout.default(input=%x, p=0.5, train=false)\n"
      "%y : ? = aten.relu.default(self=%d)\n"
      "%e : ? = aten.dropout.default(input=%y, p=0.5, train=false)\nreturn %e";
  EXPECT_TRUE(same(kPlain, with));
  EXPECT_TRUE(same(with, kPlain));
  EXPECT_TRUE(same(with, with));
  const std::string on =
      "input %x : ?\n%d : ? = aten.dropout.default(input=%x, p=0.5, train=true)\n"
      "%y : ? = aten.relu.default(self=%d)\nreturn %y";
  EXPECT_FALSE(same(kPlain, on));
  EXPECT_FALSE(same(on, kPlain));
}

TEST(ComputesSame, WithCopiesOnTheLeftAlone) {
  const std::string with =
      "input %x : ?\n%c : ? = aten.contiguous.default(self=%x)\n"
      "%y : ? = aten.relu.default(self=%c)\nreturn %y";
  EXPECT_TRUE(same(with, kPlain));
  EXPECT_FALSE(same(kPlain, with));
}

TEST(ComputesSame, WithAttentionWhoseDropoutIsZeroOrUnsaid) {
  const std::string zero =
      "input %x : ?\n%y : ? = aten.scaled_dot_product_attention.default(query=%x, key=%x, "
      "value=%x, dropout_p=0.0)\nreturn %y";
  const std::string unsaid =
      "input %x : ?\n%y : ? = aten.scaled_dot_product_attention.default(query=%x, key=%x, "
      "value=%x)\nreturn %y";
  const std::string on =
      "input %x : ?\n%y : ? = aten.scaled_dot_product_attention.default(query=%x, key=%x, "
      "value=%x, dropout_p=0.5)\nreturn %y";
  EXPECT_TRUE(same(zero, unsaid));
  EXPECT_TRUE(same(unsaid, zero));
  EXPECT_FALSE(same(zero, on));
}

TEST(ComputesSame, SeesEveryDifference) {
  const std::string base =
      "parameter %w : ? = \"w\"\ninput %x : ?\ninput %z : ?\n"
      "%a : ? = aten.add.Tensor(self=%x, other=%z)\n%b : ? = aten.mul.Tensor(self=%a, other=%w)\n"
      "return %a, [%b]";
  const auto with = [&base](const std::string& what, const std::string& instead) {
    std::string changed = base;
    changed.replace(changed.find(what), what.size(), instead);
    return changed;
  };
  EXPECT_TRUE(same(base, base));
  for (const std::string& other :
       {with("aten.add.Tensor", "aten.sub.Tensor"), with("self=%x", "self=%z"),
        with("other=%w", "other=2"), with("[%b]", "%b"), with("return %a", "return %b"),
        with("\"w\"", "\"v\""), with("parameter", "buffer"), with(", [%b]", ""),
        with("other=%z", "other=%z, alpha:=2"), with("[%b]", "[%b, %b]"),
        with("input %z : ?\n", "input %z : ?\ninput %more : ?\n"), base + "\nin_spec \"x\"",
        base + "\nout_spec \"x\"",
        with("return", "%c : ? = aten.relu_.default(self=%a)\nreturn")}) {
    EXPECT_FALSE(same(base, other)) << other;
    EXPECT_FALSE(same(other, base)) << other;
  }
}

Program with_eval(const std::string& eval) {
  return parse_text(
      "graph\n  input %x : ?\n  %d : ? = aten.dropout.default(input=%x, p=0.5, train=true)\n"
      "  %y : ? = aten.relu.default(self=%d)\n  return %y\ngraph eval\n" +
      eval);
}

TEST(Mode, DropsAnEvalGraphThatSaysNothingNew) {
  Program redundant = with_eval(kPlain);
  drop_redundant_eval(redundant);
  EXPECT_FALSE(redundant.eval_graph.has_value());

  Program needed = with_eval("input %x : ?\nreturn %x");
  drop_redundant_eval(needed);
  EXPECT_TRUE(needed.eval_graph.has_value());
}

TEST(Mode, PrefersTheGivenEvalGraph) {
  const Program program = with_eval("input %x : ?\nreturn %x");
  EXPECT_EQ(graph_for_eval(program), *program.eval_graph);
  Program derived = program;
  derived.eval_graph.reset();
  EXPECT_EQ(graph_for_eval(derived), eval_form(program.graph));
}

}  // namespace
}  // namespace ravnest::graph
