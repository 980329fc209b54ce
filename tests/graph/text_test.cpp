#include "ravnest/graph/text/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

namespace ravnest::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Each construct of the text form, as the printer writes it.
const std::string kEverything = R"(program
metadata "author" = "a \"b\" \\ \n\t\r\x00\xff"
metadata "loss" = "true"
weight parameter "conv.weight" : f32[16, 1, 3, 3] key "weight_0"
weight parameter "tied.weight" : f32[16, 1, 3, 3] strides(9, 9, 1, 3) no_grad key "weight_0"
weight buffer "bn.count" : i64[] key "weight_1"
weight buffer "mask" : bool[8, 8] offset(4) requires_grad @cuda:0 transient key "weight_2"
weight constant "lifted" : bf16[0, 3]
graph
  symbol "odd name" = 1
  symbol s0 = 64 in [2, inf]
  symbol s1 = -3
  symbol s2 = 5 in [-inf, 7]
  symbol s3 = 5 in [-9223372036854775808, 9223372036854775807]
  parameter %p_conv_weight : f32[16, 1, 3, 3] = "conv.weight"
  parameter %p_frozen : f32[16, 1, 3, 3] strides(9, 9, 1, 3) no_grad = "tied.weight"
  buffer %b_mask : bool[8, 8] offset(4) requires_grad @cuda:0 = "mask"
  constant %c_lifted : bf16[0, 3] = "lifted"
  input %x : f32[s0, 1, 8, 8]
  input %"a b%" : c64[2*s0 + 1, Max(s0, 2), s1] = "keyword"
  input %n : int(s0)
  input %f : float
  input %t : bool
  literal "flag" = true
  literal "nothing" = none
  %size.1 : int(16*s0) = _operator.mul(a=%n, b=16)
  %conv : f32[s0, 16, 8, 8] = aten.conv2d.padding(input=%x, weight=%p_conv_weight, bias=none, stride=[1, 1], padding="same") in "layer1.0.conv" at "models.py:26"
  [%a : f32[s0, 8, 8, 8] strides(1024, 64, 8, 1), %b : ?] = aten.split.Tensor(self=%conv, split_size=8, dim=1) in "layer1"
  %h : ?, %c : unknown[2] strides(7), _ = aten.lstm.input(input=%a, hx=[%a, %b], params=tensors[]) at "x.py:1"
  [] = aten.unbind.int(self=%h)
  _ = aten.add_.Tensor(self=%h, other=1)
  aten._assert.msg(a=%t, msg="no")
  %cast : f64[s0] @"odd device":-2 = "odd op"(self=%h, "odd arg"=1, dtype:=f32, layout:=none, device:=@cpu, other:=@cuda:1, third:=@"a b", memory_format:=channels_last)
  %all : u16[] = test.all(a=[], b=floats[], c=bools[], d=strings[], e=lists[], f=optional_tensors[], g=tensors[], h=[1, %n], i=[0.5, 1.0], j=[true, false], k=["a", "b"], l=[[1], [2, 3]], m=[none, %a], n=[%a], o=optional_tensors[%a], p=tensors[none], q=floats[1, 2], r=[none], s=[[], floats[]], t=[%t], u=[%f])
  %numbers : bool[] = test.numbers(a=-9223372036854775808, b=9223372036854775807, c=-0.0, d=1e-05, e=1e+300, f=inf, g=-inf, h=nan, i=complex(0.0, -inf), j=5e-324, k=0.1, l=unknown, m=bool, n=preserve)
  return %cast, [%all, %numbers], none, 3, [%n], "text"
  in_spec "[1, {\"type\": \"builtins.tuple\"}]"
  out_spec "[1]"
graph eval
  input %x : ? requires_grad
  return %x
)";

std::string error_of(std::string_view text) {
  try {
    parse_text(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

std::string in_graph(const std::string& statements) { return "graph\n" + statements + "\nreturn"; }

// How the one argument of a call comes back.
Argument reread(const Argument& argument) {
  Graph graph;
  graph.ops.push_back({.target = "a.b",
                       .arguments = {{"x", argument, true}},
                       .results = {},
                       .module = "",
                       .source = ""});
  return parse_text(to_text(graph)).graph.ops.at(0).arguments.at(0).value;
}

void expect_equal_weights(const Program& actual, const Program& expected) {
  ASSERT_EQ(actual.weights.size(), expected.weights.size());
  for (std::size_t i = 0; i < expected.weights.size(); ++i) {
    EXPECT_EQ(actual.weights[i].name, expected.weights[i].name);
    EXPECT_EQ(actual.weights[i].kind, expected.weights[i].kind);
    EXPECT_EQ(actual.weights[i].persistent, expected.weights[i].persistent);
    EXPECT_EQ(actual.weights[i].type, expected.weights[i].type);
    EXPECT_EQ(actual.weights[i].storage_key, expected.weights[i].storage_key);
    EXPECT_TRUE(actual.weights[i].storage.empty());
  }
}

TensorType tensor(DType dtype, std::vector<Expr> sizes, std::vector<Expr> strides) {
  TensorType type;
  type.dtype = dtype;
  type.sizes = std::move(sizes);
  type.strides = std::move(strides);
  return type;
}

TEST(Text, PrintsWhatItReads) {
  const Program program = parse_text(kEverything);
  EXPECT_EQ(to_text(program), kEverything);
}

TEST(Text, ReadsEveryStatement) {
  const Program program = parse_text(kEverything);
  EXPECT_EQ(program.metadata.at("author"), std::string("a \"b\" \\ \n\t\r\0\xff", 13));

  ASSERT_EQ(program.weights.size(), 5U);
  EXPECT_TRUE(program.weights[0].type.requires_grad);
  EXPECT_FALSE(program.weights[1].type.requires_grad);
  EXPECT_EQ(program.weights[1].storage_key, "weight_0");
  EXPECT_FALSE(program.weights[2].type.requires_grad);
  EXPECT_EQ(program.weights[3].kind, InputKind::kBuffer);
  EXPECT_FALSE(program.weights[3].persistent);
  EXPECT_EQ(program.weights[3].type.device, (Device{"cuda", 0}));
  EXPECT_EQ(program.weights[3].type.storage_offset, Expr(4));
  EXPECT_EQ(program.weights[4].kind, InputKind::kConstant);
  EXPECT_EQ(program.weights[4].storage_key, program.weights[4].name);

  const Graph& graph = program.graph;
  EXPECT_EQ(graph.symbols.at("s0"), (Symbol{64, 2, std::nullopt}));
  EXPECT_EQ(graph.symbols.at("s1"), (Symbol{-3, std::nullopt, std::nullopt}));
  EXPECT_EQ(graph.symbols.at("s2"), (Symbol{5, std::nullopt, 7}));
  EXPECT_EQ(graph.symbols.count("odd name"), 1U);

  ASSERT_EQ(graph.inputs.size(), 11U);
  EXPECT_EQ(graph.inputs[5].target, "keyword");
  EXPECT_EQ(graph.value(5).name, "a b%");
  EXPECT_EQ(graph.value(5).type.sizes[0], Expr::parse("2*s0 + 1"));
  EXPECT_EQ(graph.value(6).kind, ValueKind::kInt);
  EXPECT_EQ(graph.value(6).expr, Expr::symbol("s0"));
  EXPECT_EQ(graph.value(8).kind, ValueKind::kBool);
  EXPECT_EQ(graph.inputs[9].kind, InputKind::kLiteral);
  EXPECT_EQ(graph.inputs[9].literal, Argument{true});

  const Op& conv = graph.ops.at(1);
  EXPECT_EQ(conv.module, "layer1.0.conv");
  EXPECT_EQ(conv.source, "models.py:26");
  EXPECT_EQ(conv.find_argument("padding")->value, Argument{std::string("same")}.value);
  EXPECT_EQ(
      graph.ops.at(2).results,
      (std::vector<Result>{
          {Result::Kind::kList, {graph.find_value("a").value(), graph.find_value("b").value()}}}));
  EXPECT_EQ(graph.ops.at(3).results.size(), 3U);
  EXPECT_EQ(graph.ops.at(3).results[2].kind, Result::Kind::kNone);
  EXPECT_TRUE(graph.ops.at(6).results.empty());
  EXPECT_FALSE(graph.ops.at(7).arguments.back().positional);

  EXPECT_EQ(graph.outputs.size(), 6U);
  EXPECT_EQ(graph.out_spec, "[1]");
  EXPECT_TRUE(program.eval_graph->value(0).type.requires_grad);
}

TEST(Text, GivesBackAnEqualProgram) {
  Program program = parse_text(kEverything);
  // A number that is not one is not equal to itself.
  auto& numbers = program.graph.ops.back().arguments;
  std::erase_if(numbers, [](const NamedArgument& argument) { return argument.name == "h"; });

  const Program again = parse_text(to_text(program));
  EXPECT_EQ(again.graph, program.graph);
  EXPECT_EQ(again.eval_graph, program.eval_graph);
  EXPECT_EQ(again.metadata, program.metadata);
  expect_equal_weights(again, program);
}

TEST(Text, PrintsAGraphAlone) {
  const Program program = parse_text("graph\n  input %x : ?\n  return %x\n");
  EXPECT_EQ(to_text(program.graph), "graph\n  input %x : ?\n  return %x\n");
  EXPECT_EQ(to_text(Program()), "program\ngraph\n  return\n");
}

TEST(Text, IgnoresCommentsBlankLinesAndIndentation) {
  const Program program = parse_text(
      "# a model\r\n\n\ngraph # training\n\n\tinput %x:f32[ 2 ,3]# x\n  \n# the end\nreturn %x");
  EXPECT_EQ(to_text(program.graph), "graph\n  input %x : f32[2, 3]\n  return %x\n");
}

TEST(Text, FillsInContiguousStrides) {
  const auto strides_of = [](const std::string& type) {
    return parse_text(in_graph("input %x : " + type)).graph.value(0).type.strides;
  };
  const Expr s0 = Expr::symbol("s0");
  EXPECT_EQ(strides_of("f32[]"), (std::vector<Expr>{}));
  EXPECT_EQ(strides_of("f32[4]"), (std::vector<Expr>{1}));
  EXPECT_EQ(strides_of("f32[s0, 3, 4]"), (std::vector<Expr>{12, 4, 1}));
  EXPECT_EQ(strides_of("f32[2, s0, 4]"), (std::vector<Expr>{Expr::call("Mul", {4, s0}), 4, 1}));
  EXPECT_EQ(strides_of("f32[2, 2*s0, 4]"), (std::vector<Expr>{Expr::call("Mul", {8, s0}), 4, 1}));
  EXPECT_EQ(strides_of("f32[2, s0]"), (std::vector<Expr>{s0, 1}));
  EXPECT_EQ(strides_of("f32[2, 0, 3]"), (std::vector<Expr>{3, 3, 1}));
  EXPECT_EQ(strides_of("f32[2, 3] strides(1, 2)"), (std::vector<Expr>{1, 2}));
  EXPECT_EQ(strides_of("f32[2, 3] strides()"), (std::vector<Expr>{}));
}

TEST(Text, PrintsStridesThatAreNotContiguous) {
  Graph graph;
  graph.add_value({.name = "x",
                   .kind = ValueKind::kTensor,
                   .type = tensor(DType::kFloat32, {2, 3}, {}),
                   .expr = 0});
  graph.inputs.push_back({});
  EXPECT_EQ(to_text(graph), "graph\n  input %x : f32[2, 3] strides()\n  return\n");
  graph.values[0].type.strides = {3, 1};
  EXPECT_EQ(to_text(graph), "graph\n  input %x : f32[2, 3]\n  return\n");
}

TEST(Text, KeepsSizesThatOverflow) {
  const std::string huge = "4611686018427387904";
  const std::string type = "f32[2, " + huge + ", " + huge + "]";
  EXPECT_NE(error_of(in_graph("input %x : " + type)).find("expected strides(...)"),
            std::string::npos);
  const std::string text = "graph\n  input %x : " + type + " strides(1, 1, 1)\n  return\n";
  EXPECT_EQ(to_text(parse_text(text).graph), text);
}

TEST(Text, PrintsDeepSizes) {
  Expr deep = Expr::symbol("s0");
  for (int i = 0; i < Expr::kMaxDepth; ++i) {
    deep = Expr::call("Max", {deep, 1});
  }
  Graph graph;
  graph.add_value({.name = "x",
                   .kind = ValueKind::kTensor,
                   .type = tensor(DType::kFloat32, {2, deep, 3}, {3, 3, 1}),
                   .expr = 0});
  graph.inputs.push_back({});
  EXPECT_EQ(parse_text(to_text(graph)).graph, graph);
}

TEST(Text, KeepsEveryKindOfArgument) {
  const auto ints = [](std::int64_t item) { return List{ListKind::kInts, {Argument{item}}}; };
  const std::vector<Argument> arguments{
      {None{}},
      {true},
      {false},
      {std::int64_t{-7}},
      {1.0},
      {-0.5},
      {1.0 / 3.0},
      {1e22},
      {123456789012345680.0},
      {std::numeric_limits<double>::max()},
      {std::numeric_limits<double>::denorm_min()},
      {kInfinity},
      {-kInfinity},
      {std::complex<double>(1, -2.5)},
      {std::string()},
      {std::string("\"%x\" # [\\]\n\xc3\xa9")},
      {DType::kUnknown},
      {DType::kBFloat16},
      {MemoryFormat::kContiguous},
      {MemoryFormat::kChannelsLast3d},
      {Device{}},
      {Device{"cuda", 3}},
      {Device{"", -1}},
      {Device{"f32", std::numeric_limits<std::int64_t>::min()}},
      {ints(3)},
      {List{ListKind::kLists, {{ints(1)}, {List{ListKind::kLists, {{ints(2)}}}}}}},
      {List{ListKind::kInts, {{DType::kInt8}, {0.5}, {std::string("mixed")}, {None{}}}}},
  };
  for (const Argument& argument : arguments) {
    EXPECT_EQ(reread(argument), argument);
  }
  EXPECT_TRUE(std::isnan(std::get<double>(reread({std::nan("")}).value)));
  EXPECT_TRUE(std::signbit(std::get<double>(reread({-0.0}).value)));
}

TEST(Text, KeepsEveryKindOfListWhateverItHolds) {
  const std::vector<std::vector<Argument>> contents{
      {}, {{None{}}}, {{std::int64_t{1}}}, {{1.5}}, {{true}}, {{std::string("x")}}, {{List{}}}};
  for (int kind = 0; kind <= static_cast<int>(ListKind::kLists); ++kind) {
    for (const auto& items : contents) {
      const Argument list{List{static_cast<ListKind>(kind), items}};
      EXPECT_EQ(reread(list), list) << "kind " << kind;
    }
  }
}

TEST(Text, KeepsEveryDTypeAndMemoryFormatApart) {
  for (int code = 0; code < 32; ++code) {
    if (const auto dtype = find_dtype(std::int64_t{code})) {
      EXPECT_EQ(reread({*dtype}), Argument{*dtype});
    }
    if (const auto format = find_memory_format(std::int64_t{code})) {
      EXPECT_EQ(reread({*format}), Argument{*format});
    }
  }
}

TEST(Text, NumbersValuesByDefinition) {
  Graph graph;
  graph.add_value({.name = "y", .kind = ValueKind::kTensor, .type = {}, .expr = 0});
  graph.add_value({.name = "nobody", .kind = ValueKind::kTensor, .type = {}, .expr = 0});
  graph.add_value({.name = "x", .kind = ValueKind::kTensor, .type = {}, .expr = 0});
  graph.inputs.push_back({.kind = InputKind::kUser, .value = 2, .target = "", .literal = {}});
  graph.ops.push_back({.target = "aten.relu.default",
                       .arguments = {{"self", {Ref{2}}, true}},
                       .results = {{Result::Kind::kValue, {0}}},
                       .module = "",
                       .source = ""});
  graph.outputs.push_back({Ref{0}});

  const Graph again = parse_text(to_text(graph)).graph;
  ASSERT_EQ(again.values.size(), 2U);
  EXPECT_EQ(again.value(0).name, "x");
  EXPECT_EQ(again.outputs[0], Argument{Ref{1}});
  EXPECT_EQ(to_text(again), to_text(graph));
}

TEST(Text, PrintsAGraphWhoseIdsAreWrong) {
  Graph graph;
  graph.inputs.push_back({.kind = InputKind::kUser, .value = 9, .target = "", .literal = {}});
  graph.outputs.push_back({List{ListKind::kTensors, {{Ref{17}}}}});
  EXPECT_EQ(to_text(graph), "graph\n  input %?9\n  return [%?17]\n");
}

TEST(Text, SaysWhichValueIsUndefined) {
  EXPECT_EQ(error_of("graph\n  input %x : ?\n  %y : ? = aten.relu.default(self=%z)\n  return %y\n"),
            "[graph] line 3, column 35: expected a value that is defined above, got \"z\".");
  EXPECT_EQ(error_of("graph\n  %y : ? = aten.relu.default(self=%y)\n  return %y\n"),
            "[graph] line 2, column 35: expected a value that is defined above, got \"y\".");
  EXPECT_EQ(error_of("graph\n  return [1, [%\"a b\"]]"),
            "[graph] line 2, column 15: expected a value that is defined above, got \"a b\".");
  EXPECT_NE(error_of("graph\ninput %x : ?\nreturn\ngraph eval\nreturn %x").find("line 5, column 8"),
            std::string::npos);
}

TEST(Text, SaysWhatIsDefinedTwice) {
  EXPECT_EQ(error_of("graph\n  input %x : ?\n  input %x : ?\n  return"),
            "[graph] line 3, column 9: expected each value to be defined once, got \"x\" again.");
  EXPECT_EQ(error_of("graph\n  %a : ?, %a : ? = a.b()\n  return"),
            "[graph] line 2, column 11: expected each value to be defined once, got \"a\" again.");
  EXPECT_EQ(error_of("graph\nsymbol s0 = 1\nsymbol s0 = 1\nreturn"),
            "[graph] line 3, column 8: expected each symbol once, got \"s0\" again.");
  EXPECT_EQ(error_of("metadata \"a\" = \"b\"\nmetadata \"a\" = \"b\"\ngraph\nreturn"),
            "[graph] line 2, column 10: expected each key of the metadata once, got \"a\" again.");
}

TEST(Text, SaysWhatIsExpectedWhere) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "line 1, column 1: expected 'graph', got the end of the text."},
      {"\n\nhello", "line 3, column 1: expected 'graph', got \"hello\"."},
      {"program 3", "line 1, column 9: expected the end of the line, got \"3\"."},
      {"graph",
       "line 1, column 6: expected an operation, as in %y : f32[2] = "
       "aten.relu.default(self=%x), or 'return', got the end of the text."},
      {"weight input \"x\"",
       "line 1, column 8: expected 'parameter', 'buffer' or 'constant', got \"input\"."},
      {"weight buffer x", "line 1, column 15: expected a string, got \"x\"."},
      {"weight buffer \"x\" : int",
       "line 1, column 21: expected a type such as f32[2, 3], int or ?, got \"int\"."},
      {"metadata \"a\" = 3", "line 1, column 16: expected a string, got \"3\"."},
      {"graph\nreturn\ngraph", "line 3, column 6: expected 'eval', got the end of the text."},
      {"graph\nreturn\nreturn", "line 3, column 1: expected the end of the text, got \"return\"."},
      {"graph\nreturn\nout_spec 3", "line 3, column 10: expected a string, got \"3\"."},
      {"graph\nreturn 3 4", "line 2, column 10: expected the end of the line, got \"4\"."},
      {"graph\nreturn ,", "line 2, column 8: expected an argument, got \",\"."},
      {"graph\nreturn foo", "line 2, column 8: expected an argument, got \"foo\"."},
      {"graph\nreturn 3x", "line 2, column 8: expected an integer of 64 bits, got \"3x\"."},
      {"graph\nreturn 99999999999999999999",
       "line 2, column 8: expected an integer of 64 bits, got \"99999999999999999999\"."},
      {"graph\nreturn 1e999", "line 2, column 8: expected a number, got \"1e999\"."},
      {"graph\nreturn -", "line 2, column 8: expected an integer of 64 bits, got \"-\"."},
      {"graph\nreturn [1, 2", "line 2, column 13: expected ']', got the end of the text."},
      {"graph\nreturn ints", "line 2, column 12: expected '[', got the end of the text."},
      {"graph\nreturn complex(1, %x)",
       "line 2, column 19: expected a number, got the value \"x\"."},
      {"graph\nreturn @3", "line 2, column 9: expected the type of a device, got \"3\"."},
      {"graph\nreturn \"a",
       "line 2, column 8: expected a string that ends on its line, got no closing '\"'."},
      {"graph\nreturn \"a\\q\"",
       "line 2, column 10: expected one of the escapes \\\" \\\\ \\n \\r \\t \\xNN in a string."},
      {"graph\nreturn \"\\x0g\"",
       "line 2, column 9: expected one of the escapes \\\" \\\\ \\n \\r \\t \\xNN in a string."},
      {"graph\nreturn \"\\",
       "line 2, column 9: expected one of the escapes \\\" \\\\ \\n \\r \\t \\xNN in a string."},
      {"graph\nreturn %", "line 2, column 9: expected the name of a value after '%'."},
      {"graph\nreturn !", "line 2, column 8: expected a statement's next part, got \"!\"."},
      {"graph\nsymbol s0 = x", "line 2, column 13: expected an integer of 64 bits, got \"x\"."},
      {"graph\nsymbol s0 = 3 in [inf, 4]",
       "line 2, column 19: expected an integer of 64 bits, got \"inf\"."},
      {"graph\nsymbol s0 = 3 in [\"-inf\", 4]",
       "line 2, column 19: expected an integer of 64 bits, got the string \"-inf\"."},
      {"graph\ninput x", "line 2, column 7: expected a value such as %x, got \"x\"."},
      {"graph\ninput %x : f33[2]",
       "line 2, column 12: expected a type such as f32[2, 3], int or ?, got \"f33\"."},
      {"graph\ninput %x : f32", "line 2, column 15: expected '[', got the end of the text."},
      {"graph\ninput %x : f32[2,]",
       "line 2, column 18: expected a number, a name or '(' at character 1, got its end in the "
       "size expression \"\"."},
      {"graph\ninput %x : int(2 s0)",
       "line 2, column 16: expected its end at character 3, got \"s\" in the size expression "
       "\"2 s0\"."},
      {"graph\ninput %x : f32[2\nreturn",
       "line 2, column 17: expected ']', got the end of the line."},
      {"graph\n%x : ? = relu(self=3)",
       "line 2, column 10: expected an operator such as aten.relu.default, got \"relu\"."},
      {"graph\n%x = a.b()", "line 2, column 4: expected ':', got \"=\"."},
      {"graph\na.b(x)", "line 2, column 6: expected '=', got \")\"."},
      {"graph\na.b(x=1", "line 2, column 8: expected ')', got the end of the text."},
      {"graph\na.b() in conv", "line 2, column 10: expected a string, got \"conv\"."},
      {"graph\na.b()\ninput %x : ?",
       "line 3, column 1: expected an operation, as in %y : f32[2] = "
       "aten.relu.default(self=%x), or 'return', got \"input\"."},
  };
  for (const auto& [text, error] : cases) {
    EXPECT_EQ(error_of(text), "[graph] " + error) << text;
  }
}

TEST(Text, BoundsNestingAndRank) {
  EXPECT_NE(error_of("graph\nreturn " + std::string(100000, '[')).find("at most 32 lists"),
            std::string::npos);
  std::string sizes = "1";
  for (int i = 0; i < 64; ++i) {
    sizes += ", 1";
  }
  EXPECT_NE(error_of(in_graph("input %x : f32[" + sizes + "]")).find("at most 64 dimensions"),
            std::string::npos);
  const std::string brackets(100000, '(');
  EXPECT_NE(error_of(in_graph("input %x : f32[" + brackets + "]")).find("line 2, column 16"),
            std::string::npos);
}

TEST(Text, KeepsErrorsShortAndPrintable) {
  const std::string error = error_of("graph\nreturn %\"" + std::string(100000, '\xff') + "\"");
  EXPECT_LT(error.size(), 500U);
  EXPECT_TRUE(std::ranges::all_of(error, [](char c) { return c >= 0x20 && c < 0x7f; })) << error;
}

TEST(Text, ReadsLongPrograms) {
  constexpr int kOps = 20000;
  std::string text = "graph\n  input %v0 : f32[s0, 4]\n";
  for (int i = 0; i < kOps; ++i) {
    const std::string previous = "%v" + std::to_string(i);
    text += "  %v" + std::to_string(i + 1) + " : f32[s0, 4] = aten.add.Tensor(self=" + previous +
            ", other=%v0)\n";
  }
  text += "  return %v" + std::to_string(kOps) + "\n";
  const Graph graph = parse_text(text).graph;
  EXPECT_EQ(graph.ops.size(), static_cast<std::size_t>(kOps));
  EXPECT_EQ(to_text(graph), text);
}

std::string damage(std::string text, std::mt19937& random) {
  static const std::string kNoise = "%\"[](),:=?@_#-.0e\n \\xs{\xff";
  const auto place = [&] { return random() % text.size(); };
  for (auto edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
    switch (random() % 4) {
      case 0:
        text[place()] = kNoise[random() % kNoise.size()];
        break;
      case 1:
        text.insert(place(), 1, kNoise[random() % kNoise.size()]);
        break;
      case 2:
        text.erase(place(), 1 + random() % 8);
        break;
      default: {
        const std::string copy = text.substr(place(), random() % 40);
        text.insert(place(), copy);
        break;
      }
    }
  }
  return text;
}

TEST(Text, SurvivesDamage) {
  constexpr unsigned kSeed = 5;
  constexpr int kRuns = 5000;
  std::mt19937 random(kSeed);
  int refused = 0;
  for (int i = 0; i < kRuns; ++i) {
    const std::string text = damage(kEverything, random);
    const std::string error = error_of(text);
    if (error != "no error") {
      ASSERT_TRUE(error.starts_with("[graph] line ")) << error;
      ++refused;
      continue;
    }
    const std::string printed = to_text(parse_text(text));
    ASSERT_EQ(to_text(parse_text(printed)), printed) << text << "\nof seed " << kSeed;
  }
  EXPECT_GT(refused, kRuns / 5);
  EXPECT_LT(refused, kRuns);
}

TEST(Text, SurvivesTruncation) {
  for (std::size_t length = 0; length < kEverything.size(); length += 3) {
    const std::string error = error_of(std::string_view(kEverything).substr(0, length));
    EXPECT_TRUE(error == "no error" || error.starts_with("[graph] line ")) << error;
  }
}

}  // namespace
}  // namespace ravnest::graph
