#include "ravnest/engine/interpreter.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <chrono>

#include "ravnest/base/error.h"
#include "ravnest/engine/convert.h"
#include "ravnest/engine/instruction.h"
#include "ravnest/engine/progress.h"
#include "ravnest/graph/operators.h"

namespace ravnest::engine {

struct Instruction {
  const graph::Op* op = nullptr;
  std::optional<c10::OperatorHandle> handle;  // a tensor operator
  SizeFunction size_function = nullptr;       // or a size computation
  std::vector<ArgumentLoader> arguments;
  std::vector<Slot> freed;  // values whose last use this is, and results nobody uses
  bool zero_results = false;
};

struct WeightSlot {
  std::string name;
  Slot slot;
};

namespace {

using graph::Graph;
using graph::Op;
using graph::Result;
using graph::ValueId;

// "aten.conv2d.default" → {"aten::conv2d", ""}.
c10::OperatorName operator_name(const std::string& target) {
  const std::size_t first = target.find('.');
  const std::size_t last = target.rfind('.');
  RAVNEST_CHECK(first != std::string::npos && last > first);
  const std::string overload = target.substr(last + 1);
  return {target.substr(0, first) + "::" + target.substr(first + 1, last - first - 1),
          overload == "default" ? "" : overload};
}

// Assertions that export leaves in the graph about shapes and dtypes.
bool is_assertion(const std::string& target) {
  return target == "aten._assert_scalar.default" ||
         target == "aten._assert_tensor_metadata.default";
}

// Uninitialised memory would show a stranger's model what this process did before.
bool makes_uninitialised(const std::string& target) {
  return target.starts_with("aten.empty") || target.starts_with("aten.new_empty");
}

std::string describe(const Op& op) {
  std::string text = op.target;
  if (!op.module.empty()) {
    text += " in " + op.module;
  }
  if (!op.source.empty()) {
    text += " at " + op.source;
  }
  return text;
}

void store_result(const Result& result, c10::IValue value, Frame& frame) {
  if (result.kind == Result::Kind::kValue) {
    frame[result.values[0]] = std::move(value);
    return;
  }
  if (result.kind == Result::Kind::kNone) {
    return;
  }
  auto items = std::move(value).toTensorVector();
  if (items.size() != result.values.size()) {
    throw_invalid("[engine] expected a list of ", result.values.size(), " tensors, got ",
                  items.size(), ": the Program was captured with other sizes.");
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    frame[result.values[i]] = std::move(items[i]);
  }
}

}  // namespace

struct Interpreter::Code {
  explicit Code(const Graph& source) : graph(source) {}

  Graph graph;
  std::vector<Instruction> instructions;
  std::vector<WeightSlot> weights;
  std::vector<Slot> unused_inputs;
};

// Turns a graph into instructions: resolves schemas, orders arguments, finds
// last uses.
class Interpreter::Compiler {
 public:
  Compiler(const Graph& graph, std::optional<c10::Device> device)
      : code_(std::make_unique<Code>(graph)), device_(device) {}

  std::unique_ptr<const Code> compile() {
    for (const graph::Input& input : code_->graph.inputs) {
      if (input.is_weight()) {
        code_->weights.push_back({input.target, input.value});
      }
    }
    for (const Op& op : code_->graph.ops) {
      if (is_assertion(op.target)) {
        continue;
      }
      try {
        code_->instructions.push_back(compile_op(op));
      } catch (const std::invalid_argument& error) {
        throw_invalid("[engine] ", describe(op), ": ", error.what(), ".");
      }
    }
    find_last_uses();
    return std::move(code_);
  }

 private:
  Instruction compile_op(const Op& op) const {
    Instruction instruction;
    instruction.op = &op;
    instruction.size_function = find_size_function(op.target);
    if (instruction.size_function != nullptr) {
      for (const graph::NamedArgument& argument : op.arguments) {
        instruction.arguments.emplace_back(argument.value, c10::NumberType::get(), device_);
      }
      return instruction;
    }
    if (!graph::find_operator(op.target)) {
      throw_invalid("this operator is not on the list a Program may use");
    }
    instruction.handle = c10::Dispatcher::singleton().findSchema(operator_name(op.target));
    if (!instruction.handle) {
      throw_invalid("this libtorch does not have the operator");
    }
    instruction.zero_results = makes_uninitialised(op.target);
    load_arguments(op, instruction);
    check_results(op, instruction.handle->schema());
    return instruction;
  }

  void load_arguments(const Op& op, Instruction& instruction) const {
    const auto& schema = instruction.handle->schema();
    std::vector<const graph::NamedArgument*> given(schema.arguments().size(), nullptr);
    for (const graph::NamedArgument& argument : op.arguments) {
      const auto index = schema.argumentIndexWithName(argument.name);
      if (!index || given[static_cast<std::size_t>(*index)] != nullptr) {
        throw_invalid("argument '", argument.name, "' is unknown or given twice");
      }
      given[static_cast<std::size_t>(*index)] = &argument;
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
      const c10::Argument& expected = schema.arguments()[i];
      if (given[i] == nullptr) {
        if (!expected.default_value()) {
          throw_invalid("argument '", expected.name(), "' is missing");
        }
        instruction.arguments.emplace_back(*expected.default_value());
        continue;
      }
      try {
        instruction.arguments.emplace_back(given[i]->value, expected.type(), device_);
      } catch (const std::invalid_argument& error) {
        throw_invalid("argument '", expected.name(), "': ", error.what());
      }
    }
  }

  static void check_results(const Op& op, const c10::FunctionSchema& schema) {
    if (op.results.size() > schema.returns().size()) {
      throw_invalid("it returns ", schema.returns().size(), " results, not ", op.results.size());
    }
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      const bool list = schema.returns()[i].type()->kind() == c10::TypeKind::ListType;
      if ((op.results[i].kind == Result::Kind::kList) != list &&
          op.results[i].kind != Result::Kind::kNone) {
        throw_invalid("result ", i, " is", list ? "" : " not", " a list");
      }
    }
  }

  // A value read by one argument alone moves there at its last use; otherwise
  // it is cleared after the instruction.
  void find_last_uses() {
    std::vector<std::ptrdiff_t> last(code_->graph.values.size(), -1);
    auto& instructions = code_->instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      for_each_result(*instructions[i].op,
                      [&](ValueId id) { last[id] = static_cast<std::ptrdiff_t>(i); });
      for_each_ref(*instructions[i].op,
                   [&](ValueId id) { last[id] = static_cast<std::ptrdiff_t>(i); });
    }
    std::vector<bool> kept(last.size(), false);
    for (const graph::Argument& output : code_->graph.outputs) {
      for_each_ref(output, [&](ValueId id) { kept[id] = true; });
    }
    for (Slot slot = 0; slot < last.size(); ++slot) {
      if (kept[slot]) {
        continue;
      }
      if (last[slot] < 0) {
        code_->unused_inputs.push_back(slot);
      } else {
        free_after(instructions[static_cast<std::size_t>(last[slot])], slot);
      }
    }
  }

  static void free_after(Instruction& instruction, Slot slot) {
    std::size_t uses = 0;
    for_each_ref(*instruction.op, [&](ValueId id) { uses += id == slot ? 1 : 0; });
    const auto alone = std::ranges::find_if(instruction.arguments, [slot](const auto& argument) {
      return argument.reads_slot_alone() && argument.slot() == slot;
    });
    if (uses == 1 && alone != instruction.arguments.end()) {
      alone->move_from_slot();
    } else {
      instruction.freed.push_back(slot);
    }
  }

  std::unique_ptr<Code> code_;
  std::optional<c10::Device> device_;
};

namespace {

void run_size(const Instruction& instruction, Frame& frame) {
  std::vector<c10::IValue> arguments;
  for (const ArgumentLoader& argument : instruction.arguments) {
    arguments.push_back(argument.load(frame));
  }
  if (!instruction.op->results.empty()) {
    store_result(instruction.op->results[0], instruction.size_function(arguments), frame);
  }
}

void run_call(const Instruction& instruction, Frame& frame, torch::jit::Stack& stack) {
  stack.clear();
  for (const ArgumentLoader& argument : instruction.arguments) {
    stack.push_back(argument.load(frame));
  }
  instruction.handle->callBoxed(stack);
  if (instruction.zero_results) {
    stack.at(0).toTensor().zero_();
  }
  const auto& results = instruction.op->results;
  for (std::size_t i = 0; i < results.size(); ++i) {
    store_result(results[i], std::move(stack[i]), frame);
  }
}

void run_instruction(const Instruction& instruction, Frame& frame, torch::jit::Stack& stack) {
  try {
    if (instruction.size_function != nullptr) {
      run_size(instruction, frame);
    } else {
      run_call(instruction, frame, stack);
    }
  } catch (c10::Error& error) {
    error.add_context("[engine] " + describe(*instruction.op));
    throw;
  }
  for (const Slot slot : instruction.freed) {
    frame[slot] = c10::IValue();
  }
}

c10::IValue output_value(const graph::Argument& output, Frame& frame) {
  if (const graph::Ref* ref = output.find_ref()) {
    return frame[ref->id];
  }
  if (output.is_none()) {
    return {};
  }
  if (const auto* number = std::get_if<std::int64_t>(&output.value)) {
    return *number;
  }
  if (const auto* number = std::get_if<double>(&output.value)) {
    return *number;
  }
  if (const auto* flag = std::get_if<bool>(&output.value)) {
    return *flag;
  }
  if (const auto* text = std::get_if<std::string>(&output.value)) {
    return *text;
  }
  throw_invalid("[engine] an output is neither a value nor a plain constant.");
}

std::string describe_type(const graph::TensorType& type) {
  std::string text = std::string(long_name_of(type.dtype)) + "[";
  for (std::size_t i = 0; i < type.sizes.size(); ++i) {
    text += (i == 0 ? "" : ", ") + type.sizes[i].to_string();
  }
  return text + "]";
}

std::string describe_tensor(const at::Tensor& tensor) {
  std::string text = std::string(long_name_of(from_torch(tensor.scalar_type()))) + "[";
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    text += concat(i == 0 ? "" : ", ", tensor.size(i));
  }
  return text + "]";
}

// Sizes must agree with the graph's, and one symbol means one number.
bool fits(const at::Tensor& tensor, const graph::TensorType& type, graph::SymbolValues& symbols) {
  if (tensor.scalar_type() != to_torch(type.dtype) ||
      static_cast<std::size_t>(tensor.dim()) != type.sizes.size()) {
    return false;
  }
  for (std::size_t i = 0; i < type.sizes.size(); ++i) {
    const std::int64_t size = tensor.size(static_cast<std::int64_t>(i));
    if (const std::string* symbol = type.sizes[i].find_symbol()) {
      if (symbols.try_emplace(*symbol, size).first->second != size) {
        return false;
      }
    } else if (const auto expected = type.sizes[i].evaluate(symbols);
               expected && *expected != size) {
      return false;
    }
  }
  return true;
}

void check_input(const graph::Value& value, const c10::IValue& given,
                 graph::SymbolValues& symbols) {
  if (value.kind != graph::ValueKind::kTensor) {
    if (!given.isInt() && !given.isDouble() && !given.isBool()) {
      throw_invalid("[engine] input '", value.name, "' expected a number, got ", given.tagKind(),
                    ".");
    }
    return;
  }
  if (!given.isTensor() || !given.toTensor().defined()) {
    throw_invalid("[engine] input '", value.name, "' expected a tensor",
                  value.type.is_known() ? " " + describe_type(value.type) : "", ", got ",
                  given.tagKind(), ".");
  }
  if (value.type.is_known() && !fits(given.toTensor(), value.type, symbols)) {
    std::string bound;
    for (const auto& [name, size] : symbols) {
      bound += concat(bound.empty() ? " with " : ", ", name, " = ", size);
    }
    throw_invalid("[engine] input '", value.name, "' expected ", describe_type(value.type), bound,
                  ", got ", describe_tensor(given.toTensor()), ".");
  }
}

}  // namespace

Interpreter::Interpreter(const Graph& graph, std::optional<c10::Device> device)
    : code_(Compiler(graph, device).compile()) {}

Interpreter::~Interpreter() = default;

void Interpreter::bind(Frame& frame, std::vector<c10::IValue> inputs,
                       const WeightMap& weights) const {
  for (const WeightSlot& weight : code_->weights) {
    const auto found = weights.find(weight.name);
    if (found == weights.end()) {
      throw_invalid("[engine] weight '", weight.name, "' is not given.");
    }
    // In-place ops on shape and strides (t_, squeeze_) must not reach the caller's tensor.
    frame[weight.slot] = found->second.requires_grad() ? found->second : found->second.detach();
  }
  const auto expected = code_->graph.user_inputs();
  if (inputs.size() != expected.size()) {
    throw_invalid("[engine] expected ", expected.size(), " inputs, got ", inputs.size(), ".");
  }
  graph::SymbolValues symbols;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (expected[i]->kind == graph::InputKind::kUser) {
      const graph::Value& value = code_->graph.value(expected[i]->value);
      check_input(value, inputs[i], symbols);
      frame[expected[i]->value] = std::move(inputs[i]);
    }
  }
  for (const Slot slot : code_->unused_inputs) {
    frame[slot] = c10::IValue();
  }
}

std::vector<c10::IValue> Interpreter::run(std::vector<c10::IValue> inputs,
                                          const WeightMap& weights) const {
  Frame frame(code_->graph.values.size());
  bind(frame, std::move(inputs), weights);
  torch::jit::Stack stack;
  std::atomic<std::uint64_t>* const done = operators_done;
  for (const Instruction& instruction : code_->instructions) {
    run_instruction(instruction, frame, stack);
    if (done != nullptr) {
      done->fetch_add(1, std::memory_order_relaxed);
    }
  }
  return outputs_of(frame);
}

std::vector<c10::IValue> Interpreter::run_timed(std::vector<c10::IValue> inputs,
                                                const WeightMap& weights,
                                                std::vector<double>& op_seconds) const {
  using Clock = std::chrono::steady_clock;
  Frame frame(code_->graph.values.size());
  bind(frame, std::move(inputs), weights);
  op_seconds.assign(code_->graph.ops.size(), 0.0);
  torch::jit::Stack stack;
  for (const Instruction& instruction : code_->instructions) {
    const auto start = Clock::now();
    run_instruction(instruction, frame, stack);
    const auto index = static_cast<std::size_t>(instruction.op - code_->graph.ops.data());
    op_seconds[index] = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return outputs_of(frame);
}

std::vector<c10::IValue> Interpreter::outputs_of(Frame& frame) const {
  std::vector<c10::IValue> outputs;
  outputs.reserve(code_->graph.outputs.size());
  for (const graph::Argument& output : code_->graph.outputs) {
    outputs.push_back(output_value(output, frame));
  }
  return outputs;
}

}  // namespace ravnest::engine
