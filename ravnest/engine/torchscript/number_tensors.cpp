#include <ATen/ScalarOps.h>

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/nodes.h"
#include "ravnest/engine/torchscript/numbers.h"

namespace ravnest::engine {

namespace {

using graph::ValueKind;
using torch::jit::Node;
using Values = ScriptEvaluator::Values;
using Trials = ScriptProbes::Trials;

ValueKind kind_of(const ScriptGraph& graph, const ScriptValue& number) {
  if (const auto* dynamic = number.find<Dynamic>()) {
    return graph.kind_of(dynamic->id);
  }
  const auto& constant = *number.find<c10::IValue>();
  return constant.isBool()  ? ValueKind::kBool
         : constant.isInt() ? ValueKind::kInt
                            : ValueKind::kFloat;
}

c10::ScalarType dtype_of(ValueKind kind, c10::ScalarType floating) {
  return kind == ValueKind::kBool ? c10::kBool : kind == ValueKind::kInt ? c10::kLong : floating;
}

ScriptValue number_tensor(ScriptValue number, std::optional<ScriptValue> tensor = {}) {
  return {NumberTensor{
      .number = std::make_shared<const ScriptValue>(std::move(number)),
      .tensor = tensor ? std::make_shared<const ScriptValue>(std::move(*tensor)) : nullptr}};
}

// A tensor of this number that is computed at run time.
ScriptValue scalar_tensor(ScriptEvaluator& evaluator, const ScriptValue& number,
                          c10::ScalarType dtype) {
  return evaluator.graph()
      .call("scalar_tensor", "", {number, known(static_cast<std::int64_t>(dtype))},
            evaluator.origin())
      .front();
}

void number_to_tensor(ScriptEvaluator& evaluator, const Node& node) {
  const ScriptValue& number = evaluator.value(node.input());
  evaluator.bind(node.output(), is_number(evaluator.graph(), number)
                                    ? number_tensor(number)
                                    : evaluator.unknown_here("a tensor made of a number"));
}

// int(x), float(x), x.item()
void tensor_to_number(ScriptEvaluator& evaluator, const Node& node) {
  const ScriptValue& input = evaluator.value(node.input());
  const auto* tensor = input.find<NumberTensor>();
  if (tensor == nullptr) {
    const auto* dynamic = input.find<Dynamic>();
    if (dynamic != nullptr && evaluator.graph().kind_of(dynamic->id) == ValueKind::kTensor) {
      return evaluator.bind(node.output(), evaluator.unknown_here("the value of a tensor"));
    }
    return evaluate_operator(evaluator, node);
  }
  const ScriptValue number = *tensor->number;
  const ValueKind kind = kind_of(evaluator.graph(), number);
  const bool wants_int = node.output()->type()->kind() == c10::TypeKind::IntType;
  const bool wants_float = node.output()->type()->kind() == c10::TypeKind::FloatType;
  const auto* constant = number.find<c10::IValue>();
  if (wants_int && kind == ValueKind::kFloat) {
    evaluator.bind(node.output(),
                   constant != nullptr
                       ? known(static_cast<std::int64_t>(constant->toDouble()))
                       : compute_number(evaluator, "torch.sym_int", {number}, ValueKind::kInt, {}));
  } else if (wants_float && kind == ValueKind::kInt) {
    evaluator.bind(node.output(), constant != nullptr
                                      ? known(static_cast<double>(constant->toInt()))
                                      : compute_number(evaluator, "torch.sym_float", {number},
                                                       ValueKind::kFloat, {}));
  } else {
    evaluator.bind(node.output(), number);
  }
}

// The tensor that torch.tensor(numbers) makes, nested lists included; computed at run time.
ScriptValue stack_numbers(ScriptEvaluator& evaluator, const ScriptValue& data,
                          std::optional<c10::ScalarType> dtype) {
  if (const ScriptList* list = data.list()) {
    Values items;
    for (const ScriptValue& item : list->items) {
      items.push_back(stack_numbers(evaluator, item, dtype));
    }
    return evaluator.graph()
        .call("stack", "", {make_list(c10::TensorType::get(), std::move(items))},
              evaluator.origin())
        .front();
  }
  if (!is_number(evaluator.graph(), data)) {
    evaluator.refuse("tensors made of numbers", "one made of something else");
  }
  const ValueKind kind = kind_of(evaluator.graph(), data);
  return scalar_tensor(evaluator, data, dtype.value_or(dtype_of(kind, c10::kFloat)));
}

// torch.as_tensor of a tensor
void convert_tensor(ScriptEvaluator& evaluator, const Node& node, const ScriptValue& tensor,
                    const ScriptValue& dtype) {
  if (dtype.is_none()) {
    return evaluator.bind(node.output(), tensor);
  }
  evaluator.bind(
      node.output(),
      evaluator.graph().call("to", "dtype", {tensor, dtype}, evaluator.origin()).front());
}

void bind_constant_tensor(ScriptEvaluator& evaluator, const Node& node, const Values& inputs) {
  std::vector<c10::IValue> stack;
  for (const ScriptValue& input : inputs) {
    stack.push_back(evaluator.graph().probes().of(input)->front());
  }
  stack[2] = c10::Device(c10::kCPU);
  node.getOperation()(stack);
  evaluator.bind(node.output(),
                 evaluator.graph().fresh_copy(stack.front().toTensor(), evaluator.origin()));
}

// torch.tensor(data, dtype, device, requires_grad), torch.as_tensor(data, dtype, device)
void make_tensor(ScriptEvaluator& evaluator, const Node& node) {
  Values inputs = evaluator.inputs(node);
  const ScriptValue& data = inputs[0];
  if (const Unknown* reason = find_unknown(data)) {
    return evaluator.bind(node.output(), {*reason});
  }
  if (inputs.size() > 3 &&
      !(inputs[3].find<c10::IValue>() != nullptr && !inputs[3].find<c10::IValue>()->toBool())) {
    evaluator.refuse("tensors made of numbers without gradient", "one with requires_grad=True");
  }
  if (const Unknown* reason = find_unknown(inputs[1])) {
    return evaluator.bind(node.output(), is_number(evaluator.graph(), data)
                                             ? number_tensor(data, ScriptValue{*reason})
                                             : ScriptValue{*reason});
  }
  if (is_fully_known(data)) {
    return bind_constant_tensor(evaluator, node, inputs);
  }
  if (node.input(0)->type()->kind() == c10::TypeKind::TensorType) {
    return convert_tensor(evaluator, node, with_tensors(evaluator, data), inputs[1]);
  }
  const auto number = inputs[1].find_int();
  const auto dtype = number ? std::optional(static_cast<c10::ScalarType>(*number)) : std::nullopt;
  const ScriptValue tensor = stack_numbers(evaluator, data, dtype);
  evaluator.bind(node.output(), data.list() == nullptr ? number_tensor(data, tensor) : tensor);
}

// What a node on number tensors means for the numbers: add and sub with alpha=1, div with its
// rounding, which is the same for floor and trunc because sizes are not negative.
std::optional<NumberOp> find_traced_op(const Node& node, const Values& arguments) {
  auto op = find_number_op(node);
  if (!op || arguments.size() <= op->arity) {
    return op;
  }
  const auto* last = arguments.back().find<c10::IValue>();
  const bool one_more = arguments.size() == op->arity + 1 && last != nullptr;
  if (one_more && node.kind() == c10::aten::div && last->isString()) {
    return NumberOp{.target = "_operator.floordiv"};
  }
  return one_more && last->isInt() && last->toInt() == 1 ? op : std::nullopt;
}

// Per trial, a tensor for every number; tracing recorded the arithmetic on such tensors.
std::optional<Trials> run_on_number_tensors(ScriptEvaluator& evaluator, const Node& node,
                                            const Values& arguments) {
  Values numbers = arguments;
  for (ScriptValue& argument : numbers) {
    if (const auto* tensor = argument.find<NumberTensor>()) {
      argument = ScriptValue(*tensor->number);
    }
  }
  auto stacks = evaluator.graph().probes().stacks_of(numbers);
  if (!stacks) {
    return std::nullopt;
  }
  Trials trials;
  for (auto& stack : *stacks) {
    for (std::size_t i = 0; i < stack.size(); ++i) {
      if (arguments[i].find<NumberTensor>() != nullptr) {
        stack[i] = at::scalar_to_tensor(stack[i].toScalar());
      }
    }
    node.getOperation()(stack);
    trials.emplace_back(stack.front().toTensor().item());
  }
  return trials;
}

}  // namespace

bool evaluate_number_tensors(ScriptEvaluator& evaluator, const Node& node,
                             const Values& arguments) {
  const auto op = find_traced_op(node, arguments);
  if (!op || arguments.size() < op->arity || node.outputs().size() != 1 ||
      arguments[0].find<NumberTensor>() == nullptr) {
    return false;
  }
  Values numbers;
  for (std::size_t i = 0; i < op->arity; ++i) {
    const auto* tensor = arguments[i].find<NumberTensor>();
    numbers.push_back(tensor != nullptr ? *tensor->number : arguments[i]);
    if (!is_number(evaluator.graph(), numbers.back())) {
      return false;
    }
  }
  auto trials = run_on_number_tensors(evaluator, node, arguments);
  ValueKind kind = ValueKind::kInt;
  for (const ScriptValue& number : numbers) {
    kind = kind_of(evaluator.graph(), number) == ValueKind::kFloat ? ValueKind::kFloat : kind;
  }
  kind = op->target == "_operator.truediv" ? ValueKind::kFloat : kind;
  evaluator.bind(node.output(), number_tensor(compute_number(evaluator, op->target, numbers, kind,
                                                             std::move(trials))));
  return true;
}

ScriptValue with_tensors(ScriptEvaluator& evaluator, const ScriptValue& value) {
  if (const auto* tensor = value.find<NumberTensor>()) {
    if (tensor->tensor) {
      return *tensor->tensor;
    }
    const ScriptValue& number = *tensor->number;
    if (const auto* constant = number.find<c10::IValue>()) {
      return evaluator.graph().fresh_copy(at::scalar_to_tensor(constant->toScalar()),
                                          evaluator.origin());
    }
    const ValueKind kind = kind_of(evaluator.graph(), number);
    return scalar_tensor(evaluator, number, dtype_of(kind, c10::kDouble));
  }
  const ScriptList* list = value.list();
  const bool has_number_tensors =
      list != nullptr && std::ranges::any_of(list->items, [](const ScriptValue& item) {
        return item.find<NumberTensor>() != nullptr;
      });
  if (!has_number_tensors) {
    return value;
  }
  Values items;
  for (const ScriptValue& item : list->items) {
    items.push_back(with_tensors(evaluator, item));
  }
  return make_list(list->element_type, std::move(items));
}

void add_number_tensor_nodes(NodeHandlers& handlers) {
  handlers["prim::NumToTensor"] = number_to_tensor;
  for (const char* name : {"aten::Int", "aten::Float", "aten::Bool", "aten::item",
                           "aten::IntImplicit", "aten::FloatImplicit", "aten::ScalarImplicit"}) {
    handlers[name] = tensor_to_number;
  }
  handlers["aten::tensor"] = make_tensor;
  handlers["aten::as_tensor"] = make_tensor;
}

}  // namespace ravnest::engine
