#include "ravnest/engine/interpreter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include "ravnest/graph/text/text.h"

namespace ravnest::engine {
namespace {

graph::Graph parse(const std::string& body) { return graph::parse_text("graph\n" + body).graph; }

template <typename Run>
std::string message_of(Run&& run) {
  try {
    run();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

const char* const kLinear = R"(
  symbol s0 = 4 in [2, inf]
  parameter %w : f32[3, 2] = "fc.weight"
  input %x : f32[s0, 2]
  %y : f32[s0, 3] = aten.linear.default(input=%x, weight=%w) in "fc" at "net.py:9"
  %z : f32[s0, 3] = aten.relu.default(self=%y)
  return %z
)";

TEST(Interpreter, ComputesAndLetsGradientsThrough) {
  const Interpreter interpreter(parse(kLinear));
  const at::Tensor x = at::randn({5, 2});
  at::Tensor w = at::randn({3, 2}).set_requires_grad(true);
  const at::Tensor z = interpreter.run({x}, {{"fc.weight", w}}).at(0).toTensor();
  EXPECT_TRUE(at::equal(z, at::relu(at::linear(x, w))));
  z.sum().backward();
  const at::Tensor expected = (z > 0).to(at::kFloat).t().matmul(x);
  EXPECT_TRUE(at::allclose(w.grad(), expected));
}

TEST(Interpreter, BindsOtherWeightsWithoutCopyingThem) {
  const Interpreter interpreter(parse(R"(
  buffer %b : f32[2] = "b"
  %y : f32[2] = aten.add_.Scalar(self=%b, other=1)
  return %y
)"));
  const at::Tensor first = at::zeros({2});
  const at::Tensor second = at::ones({2});
  const at::Tensor result = interpreter.run({}, {{"b", second}}).at(0).toTensor();
  EXPECT_EQ(result.data_ptr(), second.data_ptr());
  EXPECT_TRUE(at::equal(second, at::full({2}, 2.0)));
  EXPECT_TRUE(at::equal(first, at::zeros({2})));
}

TEST(Interpreter, FreesValuesAtTheirLastUse) {
  const Interpreter interpreter(parse(R"(
  input %x : f32[4]
  %a : f32[4] = aten.neg.default(self=%x)
  %b : f32[4] = aten.alias.default(self=%a)
  %c : f32[4] = aten.neg.default(self=%b)
  return %c
)"));
  const at::Tensor x = at::ones({4});
  const at::Tensor c = interpreter.run({x}, {}).at(0).toTensor();
  EXPECT_EQ(c.use_count(), 1U);
  EXPECT_EQ(x.use_count(), 1U);
}

TEST(Interpreter, ComputesSizesAndListsFromThem) {
  const Interpreter interpreter(parse(R"(
  symbol s0 = 4 in [2, inf]
  input %x : f32[s0, 6]
  %n : int(s0) = aten.sym_size.int(self=%x, dim=0)
  %m : int(2*s0) = _operator.mul(a=%n, b=2)
  %y : f32[2*s0, 3] = aten.view.default(self=%x, size=[%m, 3])
  [%a : ?, %b : ?, %c : ?] = aten.split.Tensor(self=%y, split_size=1, dim=1)
  %z : ? = aten.cat.default(tensors=[%c, %a], dim=1)
  return %z, %m, none, 2.5
)"));
  const at::Tensor x = at::arange(18, at::kFloat).view({3, 6});
  const auto outputs = interpreter.run({x}, {});
  const at::Tensor y = x.view({6, 3});
  EXPECT_TRUE(at::equal(outputs[0].toTensor(), at::stack({y.select(1, 2), y.select(1, 0)}, 1)));
  EXPECT_EQ(outputs[1].toInt(), 6);
  EXPECT_TRUE(outputs[2].isNone());
  EXPECT_EQ(outputs[3].toDouble(), 2.5);
}

TEST(Interpreter, WrapsNumbersWhereTensorsAreWanted) {
  const Interpreter interpreter(parse(R"(
  input %n : i64[]
  %y : i64[] = aten.add.Tensor(self=%n, other=1)
  return %y
)"));
  const at::Tensor result =
      interpreter.run({at::scalar_tensor(41, at::kLong)}, {}).at(0).toTensor();
  EXPECT_EQ(result.scalar_type(), at::kLong);
  EXPECT_EQ(result.item<std::int64_t>(), 42);
}

TEST(Interpreter, MakesTensorsOnTheDeviceOfTheRun) {
  const graph::Graph source = parse(R"(
  input %x : f32[2]
  %z : f32[2] = aten.zeros.default(size=[2], device:=@cpu)
  %y : f32[2] = aten.add.Tensor(self=%x, other=%z)
  return %y
)");
  const Interpreter interpreter(source, c10::Device(c10::kMeta));
  const at::Tensor x = at::empty({2}, at::TensorOptions().device(c10::kMeta));
  EXPECT_TRUE(interpreter.run({x}, {}).at(0).toTensor().is_meta());
}

TEST(Interpreter, GivesNoUninitialisedMemoryAway) {
  const Interpreter interpreter(parse(R"(
  %y : f32[64] = aten.empty.memory_format(size=[64])
  return %y
)"));
  at::full({64}, 7.0);
  EXPECT_TRUE(at::equal(interpreter.run({}, {}).at(0).toTensor(), at::zeros({64})));
}

TEST(Interpreter, NamesTheInputThatDoesNotFit) {
  const Interpreter interpreter(parse(kLinear));
  const WeightMap weights{{"fc.weight", at::randn({3, 2})}};
  EXPECT_EQ(message_of([&] { interpreter.run({}, weights); }),
            "[engine] expected 1 inputs, got 0.");
  EXPECT_EQ(message_of([&] { interpreter.run({at::randn({5, 3})}, weights); }),
            "[engine] input 'x' expected float32[s0, 2] with s0 = 5, got float32[5, 3].");
  EXPECT_EQ(message_of([&] { interpreter.run({at::randn({5, 2}, at::kDouble)}, weights); }),
            "[engine] input 'x' expected float32[s0, 2], got float64[5, 2].");
  EXPECT_EQ(message_of([&] { interpreter.run({at::randn({5, 2})}, {}); }),
            "[engine] weight 'fc.weight' is not given.");
}

TEST(Interpreter, NamesTheOpThatCannotBeCompiled) {
  const auto compile = [](const std::string& op) {
    return message_of(
        [&] { Interpreter(parse("  input %x : f32[2]\n  " + op + "\n  return %y\n")); });
  };
  EXPECT_EQ(compile("%y : ? = aten.from_file.default(filename=\"/etc/passwd\")"),
            "[engine] aten.from_file.default: this operator is not on the list a Program may use.");
  EXPECT_EQ(compile("%y : ? = aten.relu.default()"),
            "[engine] aten.relu.default: argument 'self' is missing.");
  EXPECT_EQ(compile("%y : ? = aten.relu.default(self=%x, nonsense=1)"),
            "[engine] aten.relu.default: argument 'nonsense' is unknown or given twice.");
  EXPECT_EQ(compile("%y : ? = aten.sum.dim_IntList(self=%x, dim=\"a\")"),
            "[engine] aten.sum.dim_IntList: argument 'dim': expected int[]?, got a single value.");
  EXPECT_EQ(compile("[%y : ?] = aten.relu.default(self=%x)"),
            "[engine] aten.relu.default: result 0 is not a list.");
}

TEST(Interpreter, RunsInSeveralThreadsAtOnce) {
  const Interpreter interpreter(parse(kLinear));
  const at::Tensor w = at::randn({3, 2});
  std::vector<at::Tensor> results(4);
  {
    std::vector<std::jthread> threads;
    for (std::int64_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const at::Tensor x = at::full({i + 2, 2}, static_cast<double>(i));
        results[static_cast<std::size_t>(i)] =
            interpreter.run({x}, {{"fc.weight", w}}).at(0).toTensor();
      });
    }
  }
  for (std::int64_t i = 0; i < 4; ++i) {
    const at::Tensor x = at::full({i + 2, 2}, static_cast<double>(i));
    EXPECT_TRUE(at::equal(results[static_cast<std::size_t>(i)], at::relu(at::linear(x, w))));
  }
}

}  // namespace
}  // namespace ravnest::engine
