#include "ravnest/engine/torchscript/torchscript.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <fstream>
#include <sstream>

#include "ravnest/base/error.h"
#include "ravnest/engine/bound_program.h"
#include "ravnest/graph/lint.h"
#include "ravnest/graph/text/text.h"
#include "tests/base/has.h"

namespace ravnest::engine {
namespace {

using torch::jit::Module;

at::Tensor weight(const std::vector<std::int64_t>& sizes) {
  return (torch::randn(sizes) * 0.3).requires_grad_();
}

// A module with a 4 → 4 linear map, and this forward.
Module linear_module(const std::string& source) {
  torch::manual_seed(7);
  Module module("Net");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("weight", weight({4, 4}), false);
  module.register_parameter("bias", weight({4}), false);
  module.define(source);
  return module;
}

Module batch_norm(std::int64_t channels) {
  Module module("BatchNorm");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("weight", torch::ones({channels}).requires_grad_(), false);
  module.register_parameter("bias", torch::zeros({channels}).requires_grad_(), false);
  module.register_buffer("running_mean", torch::zeros({channels}));
  module.register_buffer("running_var", torch::ones({channels}));
  module.register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong));
  module.define(R"(
def forward(self, x):
    assert x.dim() == 4, "expected 4 dimensions"
    if self.training:
        self.num_batches_tracked.add_(1)
    sizes = x.size()
    count = sizes[0]
    for i in range(len(sizes) - 2):
        count *= sizes[i + 2]
    assert count != 1, "expected more than one value per channel"
    return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var,
                            self.training, 0.1, 1e-5, True)
)");
  return module;
}

Module conv_net() {
  torch::manual_seed(7);
  Module module("ConvNet");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("conv_weight", weight({3, 2, 3, 3}), false);
  module.register_module("norm", batch_norm(3));
  module.define(R"(
def forward(self, x):
    x = torch.conv2d(x, self.conv_weight, None, [1, 1], [1, 1], [1, 1], 1)
    x = torch.relu_(self.norm.forward(x))
    x = torch.dropout(x, 0.5, self.training)
    return torch.flatten(torch.max_pool2d(x, [2, 2]), 1)
)");
  return module;
}

void flatten(const c10::IValue& value, std::vector<c10::IValue>& leaves) {
  if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      flatten(item, leaves);
    }
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) {
      flatten(item, leaves);
    }
  } else if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) {
      flatten(item.value(), leaves);
    }
  } else {
    leaves.push_back(value);
  }
}

at::Tensor sum_of_squares(const std::vector<c10::IValue>& leaves) {
  at::Tensor total = torch::zeros({});
  for (const c10::IValue& leaf : leaves) {
    if (leaf.isTensor() && leaf.toTensor().requires_grad()) {
      total = total + leaf.toTensor().square().sum();
    }
  }
  return total;
}

void expect_equal(const std::vector<c10::IValue>& expected, const std::vector<c10::IValue>& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(expected[i].isTensor(), got[i].isTensor());
    if (expected[i].isTensor()) {
      EXPECT_TRUE(at::equal(expected[i].toTensor(), got[i].toTensor())) << "output " << i;
    } else {
      EXPECT_EQ(expected[i], got[i]) << "output " << i;
    }
  }
}

// deepcopy would make parameters that are no leaves.
Module copy_of(const Module& module) {
  std::stringstream archive;
  module.save(archive);
  return torch::jit::load(archive);
}

// One step of the Program beside one of the module: outputs, gradients and buffers, bit for bit.
void expect_same_step(const graph::Program& program, const Module& original, Mode mode,
                      const std::vector<c10::IValue>& inputs) {
  Module module = copy_of(original);
  module.train(mode == Mode::kTrain);
  torch::manual_seed(3);
  std::vector<c10::IValue> expected;
  flatten(module.forward(inputs), expected);

  graph::Program copied = program;
  for (graph::Weight& one : copied.weights) {
    one.storage = Bytes::copy_of(one.storage.view());
  }
  const BoundProgram bound(std::move(copied));
  std::vector<c10::IValue> flat;
  for (const c10::IValue& input : inputs) {
    flatten(input, flat);
  }
  torch::manual_seed(3);
  const std::vector<c10::IValue> got = bound.run(flat, mode);
  expect_equal(expected, got);

  const at::Tensor loss = sum_of_squares(expected);
  if (loss.requires_grad()) {
    loss.backward();
    sum_of_squares(got).backward();
  }
  for (const auto& parameter : module.named_parameters()) {
    const at::Tensor ours = bound.weight(parameter.name).grad();
    ASSERT_EQ(parameter.value.grad().defined(), ours.defined()) << parameter.name;
    EXPECT_TRUE(!ours.defined() || at::equal(parameter.value.grad(), ours)) << parameter.name;
  }
  for (const auto& buffer : module.named_buffers()) {
    EXPECT_TRUE(at::equal(buffer.value, bound.weight(buffer.name))) << buffer.name;
  }
}

void expect_same(const graph::Program& program, const Module& module,
                 const std::vector<c10::IValue>& inputs) {
  graph::lint(program, "test");
  for (const Mode mode : {Mode::kTrain, Mode::kEval}) {
    SCOPED_TRACE(mode == Mode::kTrain ? "train" : "eval");
    expect_same_step(program, module, mode, inputs);
  }
}

// Imported with and without examples, and run with the example's batch and with another.
void expect_same_everywhere(const Module& module) {
  const at::Tensor example = torch::randn({3, 4});
  for (const bool with_example : {false, true}) {
    SCOPED_TRACE(with_example ? "with an example" : "without examples");
    ImportOptions options;
    if (with_example) {
      options.example_args = {example};
    }
    const graph::Program program = import_torchscript(module, options);
    expect_same(program, module, {example});
    expect_same(program, module, {torch::randn({6, 4})});
  }
}

std::vector<std::string> targets(const graph::Graph& graph) {
  std::vector<std::string> found;
  for (const graph::Op& op : graph.ops) {
    found.push_back(op.target);
  }
  return found;
}

std::string refusal(const Module& module, const ImportOptions& options = {}) {
  try {
    import_torchscript(module, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(TorchScript, FlattensSubmodulesWithoutExamples) {
  const Module module = conv_net();
  const graph::Program program = import_torchscript(module);
  EXPECT_EQ(targets(program.graph),
            (std::vector<std::string>{"aten.conv2d.default", "aten.add_.Scalar",
                                      "aten.batch_norm.default", "aten.relu_.default",
                                      "aten.dropout.default", "aten.max_pool2d.default",
                                      "aten.flatten.using_ints"}));
  EXPECT_EQ(program.eval_graph->ops.size(), 6u);
  EXPECT_EQ(program.graph.ops[2].module, "norm");
  expect_same(program, module, {torch::randn({4, 2, 6, 6})});
  expect_same(program, module, {torch::randn({7, 2, 6, 6})});
}

TEST(TorchScript, GivesEveryValueItsTypeWithExamples) {
  const Module module = conv_net();
  const graph::Program program =
      import_torchscript(module, {.example_args = {torch::randn({4, 2, 6, 6})}});
  EXPECT_EQ(program.metadata.count("import_note"), 0u);
  for (const graph::Value& value : program.graph.values) {
    EXPECT_TRUE(value.type.is_known()) << value.name;
  }
  const graph::Value& output = program.graph.value(program.graph.outputs[0].find_ref()->id);
  EXPECT_EQ(output.type.dtype, graph::DType::kFloat32);
  EXPECT_EQ(output.type.sizes[0].to_string(), "s0");
  EXPECT_EQ(output.type.sizes[1], graph::Expr(27));
  EXPECT_EQ(program.graph.symbols.at("s0").hint, 4);
  expect_same(program, module, {torch::randn({9, 2, 6, 6})});
}

TEST(TorchScript, LeavesModuleAndRandomGeneratorAlone) {
  const Module module = conv_net();
  torch::manual_seed(5);
  const at::Tensor expected = torch::rand({3});
  torch::manual_seed(5);
  import_torchscript(module, {.example_args = {torch::zeros({4, 2, 6, 6})}});
  EXPECT_TRUE(at::equal(torch::rand({3}), expected));
  EXPECT_TRUE(module.is_training());
  for (const auto& buffer : module.named_buffers()) {
    const bool is_variance = buffer.name == "norm.running_var";
    EXPECT_TRUE((buffer.value == (is_variance ? 1 : 0)).all().item<bool>()) << buffer.name;
  }
}

TEST(TorchScript, ListsWeightsInTheOrderOfTheStateDict) {
  Module child("Child");
  child.register_parameter("b", weight({2}), false);
  child.register_buffer("a", torch::ones({2}));
  Module module("Net");
  module.register_module("child", child);
  module.register_buffer("buffer", torch::ones({1}));
  module.register_parameter("later", weight({1}), false);
  module.register_parameter("frozen", torch::ones({1}), false);
  module.define("def forward(self, x):\n    return x + self.later\n");
  const graph::Program program = import_torchscript(module, {.transient_buffers = {"child.a"}});
  std::vector<std::string> names;
  for (const graph::Weight& one : program.weights) {
    names.push_back(one.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"later", "frozen", "buffer", "child.b", "child.a"}));
  EXPECT_TRUE(program.find_weight("later")->type.requires_grad);
  EXPECT_FALSE(program.find_weight("frozen")->type.requires_grad);
  EXPECT_FALSE(program.find_weight("child.a")->persistent);
  EXPECT_TRUE(program.find_weight("buffer")->persistent);
  EXPECT_EQ(program.graph.inputs.size(), 6u) << "weights that forward does not use are inputs too";
}

TEST(TorchScript, SharesTheBytesOfTheWeights) {
  const Module module = linear_module("def forward(self, x):\n    return x + self.bias\n");
  const graph::Program program = import_torchscript(module);
  EXPECT_EQ(static_cast<const void*>(program.find_weight("bias")->storage.data()),
            module.attr("bias").toTensor().const_data_ptr());
}

TEST(TorchScript, UsesTheFirstNameOfTiedWeights) {
  Module module("Tied");
  const at::Tensor shared = weight({4, 4});
  module.register_parameter("first", shared, false);
  module.register_parameter("second", shared, false);
  module.define(
      "def forward(self, x):\n"
      "    return torch.linear(torch.linear(x, self.first), self.second)\n");
  const graph::Program program = import_torchscript(module);
  EXPECT_EQ(program.weights.size(), 2u);
  EXPECT_EQ(program.weights[0].storage_key, program.weights[1].storage_key);
  EXPECT_EQ(program.graph.inputs.size(), 2u);
  EXPECT_EQ(program.graph.inputs[0].target, "first");
  EXPECT_EQ(program.graph.ops[0].find_argument("weight")->find_ref()->id,
            program.graph.ops[1].find_argument("weight")->find_ref()->id);
}

TEST(TorchScript, KeepsBothFormsOfABranchOnTraining) {
  const Module module = linear_module(R"(
def forward(self, x):
    h = torch.linear(x, self.weight, self.bias)
    if self.training:
        return {"out": h, "aux": torch.relu(h)}
    return {"out": torch.softmax(h, -1)}
)");
  const graph::Program program = import_torchscript(module);
  EXPECT_EQ(program.graph.outputs.size(), 2u);
  EXPECT_EQ(program.eval_graph->outputs.size(), 1u);
  EXPECT_TRUE(has(program.graph.out_spec, R"("context": "[\"out\", \"aux\"]")"));
  expect_same_everywhere(module);
}

TEST(TorchScript, KeepsModulesThatWereSwitchedToEval) {
  Module module = conv_net();
  module.attr("norm").toModule().train(false);
  graph::Program program = import_torchscript(module);
  const auto trains = [&program] {
    const auto& ops = program.graph.ops;
    const auto found = std::ranges::find(ops, "aten.batch_norm.default", &graph::Op::target);
    return std::get<bool>(found->find_argument("training")->value);
  };
  EXPECT_FALSE(trains());
  module.train(false);
  program = import_torchscript(module);
  EXPECT_TRUE(trains()) << "a model saved in eval mode trains as a whole";
}

TEST(TorchScript, UnrollsLoops) {
  const Module module = linear_module(R"(
def forward(self, x):
    parts = [x]
    for i in range(3):
        parts.append(torch.linear(parts[-1], self.weight) * i)
    n = 0
    while n < 2:
        parts[n] = parts[n] + n
        n += 1
    out = parts.pop()
    for part in parts[1:] + [out]:
        out = out + part
    return out
)");
  expect_same_everywhere(module);
}

TEST(TorchScript, ComputesSizesAtRunTime) {
  const Module module = linear_module(R"(
def forward(self, x):
    rows, columns = x.size()
    y = x.reshape(rows * 2, columns // 2)
    steps = torch.arange(x.size(0) - 1 + 1)
    count = torch.tensor(rows)
    pair = torch.tensor([rows, 2])
    half = float(rows) / 2.0
    return y, steps, count, pair, half, int(count) * 3, x.numel(), -rows
)");
  expect_same_everywhere(module);
  const graph::Program program =
      import_torchscript(module, {.example_args = {torch::randn({3, 4})}});
  const std::string text = graph::to_text(program.graph);
  EXPECT_TRUE(has(text, "int(2*s0) = _operator.mul(")) << text;
  EXPECT_TRUE(has(text, "int(4*s0) = aten.sym_numel.default(")) << text;
  EXPECT_TRUE(has(text, "f32[2*s0, 2]")) << text;
  EXPECT_FALSE(has(text, "floordiv")) << "what the batch does not change is a constant";
}

TEST(TorchScript, DropsWhatNobodyUses) {
  const Module module = linear_module(R"(
def forward(self, x):
    unused = torch.relu(x) @ self.weight
    noise = torch.rand([2])
    assert noise.dim() == 1
    return x + self.bias
)");
  const graph::Program program = import_torchscript(module);
  EXPECT_EQ(targets(program.graph),
            (std::vector<std::string>{"aten.rand.default", "aten.add.Tensor"}))
      << "a random operator moves the generator";
  expect_same_everywhere(module);
}

TEST(TorchScript, FollowsInPlaceOperators) {
  const Module module = linear_module(R"(
def forward(self, x):
    h = torch.linear(x, self.weight, self.bias)
    h += 1
    z = torch.zeros_like(h)
    z[:, 0] = 2.5
    z[:, 1] = h[:, 2]
    torch.tanh_(z)
    return z * h
)");
  expect_same_everywhere(module);
}

TEST(TorchScript, WritesAssignedBuffersAtTheEnd) {
  Module module = linear_module("def unused(self, x):\n    return x\n");
  module.register_buffer("count", torch::zeros({1}));
  module.define(R"(
def forward(self, x):
    if self.training:
        self.count = self.count + torch.linear(x, self.weight).mean()
        self.count = self.count * 2
    return x + self.count
)");
  expect_same_everywhere(module);
}

TEST(TorchScript, MakesFreshTensorsOfConstants) {
  const Module module = linear_module(R"(
def forward(self, x):
    total = torch.tensor([1.0, 2.0, 3.0, 4.0])
    total += 1
    return x * total + torch.tensor([1.0, 2.0, 3.0, 4.0])
)");
  const graph::Program program = import_torchscript(module);
  EXPECT_EQ(program.weights.size(), 3u) << "equal constants are one";
  EXPECT_EQ(program.weights[2].kind, graph::InputKind::kConstant);
  EXPECT_FALSE(program.weights[2].in_state_dict());
  expect_same_everywhere(module);
  const BoundProgram bound(import_torchscript(module));
  const at::Tensor x = torch::ones({1, 4});
  expect_equal(bound.run({x}, Mode::kTrain), bound.run({x}, Mode::kTrain));
}

TEST(TorchScript, SplitsIntoListsOfTensors) {
  const Module module = linear_module(R"(
def forward(self, x):
    a, b = x.chunk(2, 1)
    c, d = x.split([1, 3], 1)
    rows = torch.stack([a * 2, b], 0)
    return [a, b, c, d, rows], torch.cat([c, d], 1)
)");
  expect_same_everywhere(module);
}

TEST(TorchScript, TakesAssertionsToHold) {
  const Module module = linear_module(R"(
def forward(self, x):
    assert x.dim() == 2
    assert bool((x == x).all())
    return x + self.bias
)");
  expect_same_everywhere(module);
}

TEST(TorchScript, RefusesBranchesOnData) {
  const Module module = linear_module(R"(
def forward(self, x):
    if bool(x.sum() > 0):
        x = x + 1
    return x
)");
  for (const bool with_example : {false, true}) {
    ImportOptions options;
    if (with_example) {
      options.example_args = {torch::ones({2, 4})};
    }
    const std::string text = refusal(module, options);
    EXPECT_TRUE(has(text, "<string>:3")) << text;
    EXPECT_TRUE(has(text, "an if on the value of a tensor")) << text;
  }
}

TEST(TorchScript, RefusesLoopsOnData) {
  const std::string text = refusal(linear_module(R"(
def forward(self, x):
    while bool(x.sum() > 0):
        x = x - 1
    return x
)"));
  EXPECT_TRUE(has(text, "<string>:3: ")) << text;
  EXPECT_TRUE(has(text, "a loop over the value of a tensor")) << text;
}

TEST(TorchScript, FixesTheBatchWhereTheModelDoes) {
  const Module module = linear_module(R"(
def forward(self, x):
    out = x[0]
    for i in range(x.size(0)):
        out = out * x[i]
    return out
)");
  EXPECT_TRUE(has(refusal(module), "a loop over a size"));
  const graph::Program program =
      import_torchscript(module, {.example_args = {torch::randn({3, 4})}});
  EXPECT_TRUE(has(program.metadata.at("import_note"), "fixed at 3"));
  EXPECT_TRUE(has(program.metadata.at("import_note"), "<string>:4"));
  EXPECT_TRUE(program.graph.symbols.empty());
  expect_same(program, module, {torch::randn({3, 4})});
}

TEST(TorchScript, VariesOnlyTheFirstInputWhereOthersAgreeByChance) {
  const Module module = linear_module(R"(
def forward(self, x, table):
    return torch.linear(x, table)
)");
  const graph::Program program =
      import_torchscript(module, {.example_args = {torch::randn({4, 4}), torch::randn({4, 4})}});
  EXPECT_EQ(program.graph.symbols.size(), 1u);
  expect_same(program, module, {torch::randn({4, 4}), torch::randn({4, 4})});
}

TEST(TorchScript, TellsConditionsOnShapesByExample) {
  const Module module = linear_module(R"(
def forward(self, x):
    if x.size(1) == 4 and x.is_floating_point():
        return x.view(x.size()[:-1] + [2, 2])
    return x.unsqueeze(0)
)");
  const std::string text = refusal(module);
  EXPECT_TRUE(has(text, "an if on ")) << text;
  EXPECT_TRUE(has(text, "Pass example inputs")) << text;
  const graph::Program program =
      import_torchscript(module, {.example_args = {torch::randn({3, 4})}});
  expect_same(program, module, {torch::randn({5, 4})});
}

TEST(TorchScript, ReportsWhatForwardRaises) {
  const Module module = linear_module(R"(
def forward(self, x):
    assert x.size(1) == 4, "four columns, please"
    return x
)");
  const std::string text = refusal(module, {.example_args = {torch::ones({2, 5})}});
  EXPECT_TRUE(has(text, "four columns, please")) << text;
  EXPECT_EQ(refusal(module), "");
}

TEST(TorchScript, ReportsExamplesThatDoNotFit) {
  const Module module = linear_module(
      "def forward(self, x, scale: float = 2.0):\n"
      "    return torch.linear(x, self.weight) * scale\n");
  const at::Tensor x = torch::ones({2, 4});
  EXPECT_TRUE(has(refusal(module, {.example_args = {torch::ones({2, 5})}}), "aten::linear"));
  EXPECT_TRUE(has(refusal(module, {.example_args = {x, 1.0, x}}), "at most 2"));
  EXPECT_TRUE(has(refusal(module, {.example_args = {x, "a"}}), "scale"));
  EXPECT_TRUE(
      has(refusal(module, {.example_args = {x}, .example_kwargs = {{"size", 1}}}), "'size'"));
  EXPECT_TRUE(has(refusal(module, {.example_args = {x}, .example_kwargs = {{"x", x}}}), "twice"));
  EXPECT_TRUE(has(refusal(module, {.example_kwargs = {{"scale", 1.0}}}), "'x'"));
}

TEST(TorchScript, FixesEverythingButTensorsToTheExample) {
  const Module module = linear_module(R"(
def forward(self, xs: List[Tensor], named: Dict[str, Tensor], times: int = 2, scale: float = 1.0):
    out = named["a"]
    for x in xs:
        out = out + x * times
    return out * scale, named
)");
  c10::List<at::Tensor> list({torch::randn({3, 4}), torch::randn({3, 4})});
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("a", torch::randn({3, 4}));
  const graph::Program program = import_torchscript(
      module, {.example_args = {list, dict, 3}, .example_kwargs = {{"scale", 4}}});
  ASSERT_EQ(program.graph.user_inputs().size(), 5u);
  EXPECT_EQ(program.graph.user_inputs()[3]->literal, graph::Argument{std::int64_t{3}});
  EXPECT_EQ(program.graph.user_inputs()[4]->literal, graph::Argument{4.0});
  EXPECT_TRUE(has(program.graph.in_spec, R"("context": "[\"scale\"]")"));
  EXPECT_EQ(program.metadata.at("arguments"), "xs,named,times");
  expect_same(program, module, {list, dict, 3, 4.0});
  EXPECT_TRUE(has(refusal(module), "'xs'")) << "a list has no length without an example";
}

TEST(TorchScript, TakesDeclaredInputsWithoutExamples) {
  const Module module = linear_module(R"(
def forward(self, pair: Tuple[Tensor, Tensor], n: int, mask: Optional[Tensor] = None):
    x = pair[0] * pair[1] + n
    if mask is not None:
        x = x * mask
    return x.reshape([n, -1])
)");
  const graph::Program program = import_torchscript(module);
  EXPECT_EQ(program.graph.user_inputs().size(), 3u) << "what has a default keeps it";
  const auto pair = std::make_tuple(torch::randn({2, 4}), torch::randn({2, 4}));
  expect_same(program, module, {pair, 4});
}

TEST(TorchScript, RefusesWhatReachesOutOfTheModel) {
  const std::string save =
      refusal(linear_module("def forward(self, x):\n    torch.save(x, \"file\")\n    return x\n"));
  EXPECT_TRUE(has(save, "aten::save") && has(save, "<string>:2")) << save;
  const std::string file = refusal(linear_module(
      "def forward(self, x):\n    return x + torch.from_file(\"/etc/passwd\", False, 4)\n"));
  EXPECT_TRUE(has(file, "aten::from_file")) << file;
}

TEST(TorchScript, RefusesOperatorsThatAreNotAtens) {
  Module module("Net");
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(R"(
graph(%self, %x : Tensor):
  %y : Tensor = quantized::relu6(%x)
  return (%y))",
                      graph.get());
  graph->inputs()[0]->setType(module.type());
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*module.type()->name(), "forward"), graph));
  const std::string text = refusal(module);
  EXPECT_TRUE(has(text, "quantized::relu6")) << text;
}

TEST(TorchScript, RefusesStateThatIsNoBuffer) {
  const auto refusal_of = [](const std::string& forward) {
    Module module = linear_module("def unused(self, x):\n    return x\n");
    module.register_attribute("calls", c10::IntType::get(), 0);
    module.register_attribute("seen", c10::ListType::ofTensors(), c10::List<at::Tensor>());
    module.define(forward);
    return refusal(module);
  };
  const std::string number =
      refusal_of("def forward(self, x):\n    self.calls += 1\n    return x\n");
  EXPECT_TRUE(has(number, "<string>:2") && has(number, "self.calls")) << number;
  const std::string list =
      refusal_of("def forward(self, x):\n    self.seen.append(x)\n    return x\n");
  EXPECT_TRUE(has(list, "belongs to the module")) << list;
}

TEST(TorchScript, RefusesModulesWithoutForward) {
  EXPECT_TRUE(has(refusal(Module("Empty")), "__torch__.Empty"));
}

TEST(TorchScript, RefusesEndlessLoops) {
  const std::string text = refusal(linear_module(R"(
def forward(self, x):
    n = 0
    while n >= 0:
        n += 1
    return x + n
)"));
  EXPECT_TRUE(has(text, "10000 iterations")) << text;
}

TEST(TorchScript, ReadsArchives) {
  const Module module = conv_net();
  std::stringstream archive;
  module.save(archive);
  const std::string bytes = archive.str();
  expect_same(import_torchscript(archive), module, {torch::randn({4, 2, 6, 6})});

  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "torchscript_test.pt";
  std::ofstream(path, std::ios::binary) << bytes;
  expect_same(import_torchscript(path), module, {torch::randn({4, 2, 6, 6})});
  std::filesystem::remove(path);
  EXPECT_THROW(import_torchscript(path), Error);

  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, bytes.size() / 2}) {
    std::istringstream broken(bytes.substr(0, size));
    EXPECT_THROW(import_torchscript(broken), std::invalid_argument) << size;
  }
  std::istringstream other("not an archive");
  EXPECT_THROW(import_torchscript(other), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest::engine
