#include <algorithm>
#include <set>

#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/blocks.h"
#include "ravnest/engine/torchscript/nodes.h"
#include "ravnest/engine/torchscript/numbers.h"
#include "ravnest/engine/torchscript/translation.h"
#include "ravnest/engine/torchscript/types.h"

namespace ravnest::engine {

namespace {

using torch::jit::Node;
using Values = ScriptEvaluator::Values;
using Trials = ScriptProbes::Trials;

// What reaches out of the model: files, other processes, Python, clocks, generators.
bool reaches_out(const std::string& name) {
  static const std::set<std::string> kNames = {"aten::save",
                                               "aten::from_file",
                                               "aten::wait",
                                               "aten::manual_seed",
                                               "aten::seed",
                                               "aten::backward",
                                               "aten::dist_backward",
                                               "aten::grad",
                                               "aten::set_grad_enabled",
                                               "aten::to_here",
                                               "aten::local_value",
                                               "aten::owner",
                                               "aten::owner_name",
                                               "aten::set_data",
                                               "prim::PythonOp",
                                               "prim::fork",
                                               "prim::IgnoredPythonOp",
                                               "prim::TimePoint",
                                               "prim::AddStatValue",
                                               "prim::id",
                                               "prim::tolist"};
  return kNames.contains(name) || name.starts_with("prim::rpc_") ||
         name.starts_with("prim::awaitable");
}

// Throws by name unless the node is an operator that may be computed or recorded.
const torch::jit::Operator& checked_operator(const ScriptEvaluator& evaluator, const Node& node) {
  const std::string name = node.kind().toQualString();
  const bool standard = node.kind().is_aten() || node.kind().is_prim();
  if (!standard || reaches_out(name)) {
    evaluator.refuse("pure tensor operators of ATen", name);
  }
  const torch::jit::Operator* op = node.maybeOperator();
  if (op == nullptr) {
    evaluator.refuse("operators that one flat graph can describe", name);
  }
  return *op;
}

// Known results of an operator that has run; lists that it changed are read back.
void run_known(ScriptEvaluator& evaluator, const Node& node, const Values& arguments) {
  std::vector<c10::IValue> stack;
  for (const ScriptValue& argument : arguments) {
    stack.push_back(evaluator.graph().probes().of(argument)->front());
  }
  const std::vector<c10::IValue> given = stack;
  try {
    node.getOperation()(stack);
  } catch (const std::exception& error) {
    evaluator.refuse(concat("a ", node.kind().toQualString(), " that works"), brief_error(error));
  }
  const auto& schema = node.schema();
  for (std::size_t i = 0; i < schema.arguments().size() && i < given.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) {
      continue;
    }
    ScriptList* list = arguments[i].list();
    if (list == nullptr || list->is_attribute) {
      evaluator.refuse("changes of lists that forward made", node.kind().toQualString());
    }
    list->items = evaluator.lift(given[i], "").list()->items;
  }
  RAVNEST_CHECK(stack.size() == node.outputs().size());
  for (std::size_t i = 0; i < stack.size(); ++i) {
    evaluator.bind(node.outputs()[i], evaluator.lift(stack[i], "lifted_constant"));
  }
}

// Per output, its trials; nothing if it cannot be told without data.
std::optional<std::vector<Trials>> run_trials(ScriptEvaluator& evaluator, const Node& node,
                                              const Values& arguments) {
  auto stacks = evaluator.graph().probes().stacks_of(arguments);
  if (!stacks) {
    return std::nullopt;
  }
  std::vector<Trials> outputs(node.outputs().size());
  try {
    for (auto& stack : *stacks) {
      node.getOperation()(stack);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        outputs[i].push_back(stack.at(i));
      }
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return outputs;
}

bool agree(const Trials& trials) {
  return std::ranges::all_of(trials, [&](const c10::IValue& one) { return one == trials.front(); });
}

std::optional<graph::ValueKind> number_kind(const ScriptGraph& graph, const c10::Type& type,
                                            const Values& arguments) {
  switch (type.kind()) {
    case c10::TypeKind::IntType:
      return graph::ValueKind::kInt;
    case c10::TypeKind::FloatType:
      return graph::ValueKind::kFloat;
    case c10::TypeKind::BoolType:
      return graph::ValueKind::kBool;
    case c10::TypeKind::NumberType:
      break;
    default:
      return std::nullopt;
  }
  const bool all_ints = std::ranges::all_of(arguments, [&](const ScriptValue& value) {
    const auto* dynamic = value.find<Dynamic>();
    return value.find_int() ||
           (dynamic != nullptr && graph.kind_of(dynamic->id) == graph::ValueKind::kInt);
  });
  return all_ints ? graph::ValueKind::kInt : graph::ValueKind::kFloat;
}

// The node as an op on numbers that runs with the Program, if it is one.
std::optional<ScriptValue> find_symbolic(ScriptEvaluator& evaluator, const Node& node,
                                         const Values& arguments, std::optional<Trials> trials) {
  const auto op = find_number_op(node);
  const bool numbers = std::ranges::all_of(
      arguments, [&](const ScriptValue& value) { return is_number(evaluator.graph(), value); });
  if (!op || !numbers || arguments.size() != op->arity || node.outputs().size() != 1) {
    return std::nullopt;
  }
  const auto kind = number_kind(evaluator.graph(), *node.output()->type(), arguments);
  const bool is_conversion = op->target == "torch.sym_int" || op->target == "torch.sym_float";
  const auto* dynamic = arguments[0].find<Dynamic>();
  if (is_conversion && dynamic != nullptr && evaluator.graph().kind_of(dynamic->id) == kind) {
    return arguments[0];
  }
  return kind ? std::optional(
                    compute_number(evaluator, op->target, arguments, *kind, std::move(trials)))
              : std::nullopt;
}

std::string what_is_unknown(const Node& node, bool depends_on_batch) {
  if (depends_on_batch) {
    return concat(node.kind().toQualString(), " of the batch size");
  }
  if (node.kind() == c10::aten::dim) {
    return "the number of dimensions of a tensor";
  }
  if (node.kind() == c10::prim::dtype) {
    return "the dtype of a tensor";
  }
  return concat(node.kind().toQualString(), " of something unknown");
}

// An operator that gives no tensors.
void evaluate_plain(ScriptEvaluator& evaluator, const Node& node, const Values& arguments) {
  if (std::ranges::all_of(arguments, is_fully_known)) {
    return run_known(evaluator, node, arguments);
  }
  if (node.schema().is_mutable()) {
    evaluator.refuse("changes that can be followed",
                     concat(node.kind().toQualString(), " on values computed at run time"));
  }
  const auto trials = run_trials(evaluator, node, arguments);
  if (trials && std::ranges::all_of(*trials, agree)) {
    for (std::size_t i = 0; i < trials->size(); ++i) {
      evaluator.bind(node.outputs()[i], evaluator.lift((*trials)[i].front(), ""));
    }
    return;
  }
  const auto symbolic = find_symbolic(evaluator, node, arguments,
                                      trials ? std::optional(trials->front()) : std::nullopt);
  if (symbolic) {
    return evaluator.bind(node.output(), *symbolic);
  }
  evaluator.bind_all(node, evaluator.unknown_here(what_is_unknown(node, trials.has_value())));
}

// Inside torch.no_grad() an operator sees its arguments without their history.
void forget_gradients(ScriptEvaluator& evaluator, ScriptValue& value) {
  if (const auto* tensor = value.find<Dynamic>()) {
    if (evaluator.graph().requires_grad(tensor->id)) {
      value = evaluator.graph().call("detach", "", {value}, evaluator.origin()).front();
    }
  } else if (const ScriptList* list = value.list()) {
    ScriptList copied = *list;
    for (ScriptValue& item : copied.items) {
      forget_gradients(evaluator, item);
    }
    value = make_list(copied.element_type, std::move(copied.items));
  }
}

// An operator that gives tensors.
void evaluate_tensors(ScriptEvaluator& evaluator, const Node& node, const Values& arguments) {
  if (evaluate_number_tensors(evaluator, node, arguments)) {
    return;
  }
  TensorCall call = translate(evaluator, node, arguments);
  for (ScriptValue& argument : call.arguments) {
    argument = with_tensors(evaluator, argument);
    if (evaluator.no_grad_depth > 0) {
      forget_gradients(evaluator, argument);
    }
  }
  if (call.name.empty()) {
    return evaluator.bind(node.output(), call.arguments.at(0));
  }
  const auto results = evaluator.graph().call(call.name, call.overload, std::move(call.arguments),
                                              evaluator.origin(), list_length(node, arguments));
  if (const Unknown* reason = find_unknown(results)) {
    return evaluator.bind_all(node, {*reason});
  }
  RAVNEST_CHECK(results.size() == node.outputs().size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    evaluator.bind(node.outputs()[i], results[i]);
  }
}

}  // namespace

void evaluate_operator(ScriptEvaluator& evaluator, const Node& node) {
  const torch::jit::Operator& op = checked_operator(evaluator, node);
  Values arguments = evaluator.inputs(node);
  for (ScriptValue& argument : arguments) {
    if (argument.find<ShapeOf>() != nullptr) {
      argument = evaluator.unknown_here("the number of dimensions of a tensor");
    }
  }
  adapt_unknown_fill(node, arguments);
  if (const Unknown* reason = find_unknown(arguments)) {
    if (op.schema().is_mutable()) {
      refuse_unknown(*reason);
    }
    return evaluator.bind_all(node, {*reason});
  }
  const bool gives_tensors = std::ranges::any_of(
      node.outputs(), [](const auto* output) { return holds_tensors(*output->type()); });
  if (gives_tensors) {
    evaluate_tensors(evaluator, node, arguments);
  } else {
    evaluate_plain(evaluator, node, arguments);
  }
}

}  // namespace ravnest::engine
