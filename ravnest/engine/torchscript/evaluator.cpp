#include "ravnest/engine/torchscript/evaluator.h"

#include <torch/csrc/jit/api/function_impl.h>

#include <ranges>

#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/blocks.h"
#include "ravnest/engine/torchscript/nodes.h"

namespace ravnest::engine {

namespace {

using torch::jit::Node;

constexpr std::size_t kDeepestCall = 200;
// A model of a thousand layers takes a hundredth of this.
constexpr std::int64_t kMostSteps = 10'000'000;

const NodeHandlers& node_handlers() {
  static const NodeHandlers kHandlers = [] {
    NodeHandlers made;
    add_control_nodes(made);
    add_object_nodes(made);
    add_container_nodes(made);
    add_list_nodes(made);
    add_dict_nodes(made);
    add_number_nodes(made);
    add_number_tensor_nodes(made);
    return made;
  }();
  return kHandlers;
}

}  // namespace

ScriptEvaluator::ScriptEvaluator(ScriptGraph& graph, const torch::jit::Module& module,
                                 bool training)
    : graph_(graph),
      module_(module),
      objects_(module, training, [this](const c10::IValue& value, const std::string& name) {
        return lift(value, name);
      }) {}

ScriptValue ScriptEvaluator::run_forward(Values arguments) {
  arguments.insert(arguments.begin(), objects_.object(module_._ivalue(), ""));
  ScriptValue result = call(module_.get_method("forward").function(), std::move(arguments));
  for (const auto& [buffer, assigned] : objects_.assigned_buffers()) {
    const ScriptValue plain = graph_.call("detach", "", {assigned}, {}).front();
    graph_.call("copy_", "", {buffer, plain}, {});
  }
  return result;
}

ScriptValue ScriptEvaluator::call(torch::jit::Function& function, Values arguments) {
  torch::jit::GraphFunction* callee = torch::jit::tryToGraphFunction(function);
  if (callee == nullptr) {
    refuse("TorchScript functions and ATen operators", "a call of " + function.name());
  }
  if (frames_.size() >= kDeepestCall) {
    refuse("calls that are not recursive", "a call of " + function.name() + " inside itself");
  }
  const std::shared_ptr<torch::jit::Graph> body = callee->graph();
  RAVNEST_CHECK(body->inputs().size() == arguments.size());
  Frame frame;
  const ScriptObject* self = arguments.empty() ? nullptr : arguments[0].object();
  frame.module = self != nullptr && self->type->is_module() ? self->path
                 : frames_.empty()                          ? ""
                                                            : frames_.back().module;
  frames_.push_back(std::move(frame));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    bind(body->inputs()[i], std::move(arguments[i]));
  }
  evaluate_block(*body->block());
  ScriptValue result = value(body->outputs().at(0));
  frames_.pop_back();
  return result;
}

void ScriptEvaluator::evaluate_block(const torch::jit::Block& block) {
  for (const Node* node : block.nodes()) {
    evaluate(*node);
  }
}

void ScriptEvaluator::evaluate(const Node& node) {
  if (node.sourceRange().source()) {
    frames_.back().node = &node;
  }
  if (++steps_ > kMostSteps) {
    refuse("a forward of a size that can be unrolled", "loops without end");
  }
  const auto handler = node_handlers().find(node.kind().toQualString());
  if (handler != node_handlers().end()) {
    handler->second(*this, node);
  } else {
    evaluate_operator(*this, node);
  }
}

const ScriptValue& ScriptEvaluator::value(const torch::jit::Value* value) const {
  const auto found = frames_.back().values.find(value);
  RAVNEST_CHECK(found != frames_.back().values.end());
  return found->second;
}

ScriptEvaluator::Values ScriptEvaluator::inputs(const Node& node) const {
  Values found;
  for (const torch::jit::Value* input : node.inputs()) {
    found.push_back(value(input));
  }
  return found;
}

void ScriptEvaluator::bind(const torch::jit::Value* output, ScriptValue value) {
  frames_.back().values.insert_or_assign(output, std::move(value));
}

void ScriptEvaluator::bind_all(const Node& node, const ScriptValue& value) {
  for (const torch::jit::Value* output : node.outputs()) {
    bind(output, value);
  }
}

ScriptValue ScriptEvaluator::lift(const c10::IValue& value, const std::string& name) {
  if (value.isTensor()) {
    return graph_.tensor(value.toTensor(), name);
  }
  if (value.isList()) {
    Values items;
    for (const c10::IValue& item : value.toListRef()) {
      items.push_back(lift(item, name));
    }
    return make_list(value.toList().elementType(), std::move(items));
  }
  if (value.isTuple()) {
    Values items;
    for (const c10::IValue& item : value.toTupleRef().elements()) {
      items.push_back(lift(item, name));
    }
    return make_tuple(value.type(), std::move(items));
  }
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    ScriptDict made{.key_type = dict.keyType(), .value_type = dict.valueType(), .items = {}};
    for (const auto& item : dict) {
      made.items.emplace_back(item.key(), lift(item.value(), name));
    }
    return {std::make_shared<ScriptDict>(std::move(made))};
  }
  if (value.isObject()) {
    return objects_.object(value.toObject(), name);
  }
  return known(value);
}

Origin ScriptEvaluator::origin() const {
  Origin made;
  made.module = frames_.empty() ? "" : frames_.back().module;
  for (const Frame& frame : std::views::reverse(frames_)) {
    if (frame.node == nullptr) {
      continue;
    }
    const SourceLine line = source_line(*frame.node);
    if (!line.is_known()) {
      continue;
    }
    if (made.where.empty() || !line.in_library) {
      made.source = line.brief();
      made.where = line.full();
    }
    if (!line.in_library) {
      break;
    }
  }
  made.where = made.where.empty() ? "forward" : made.where;
  return made;
}

void ScriptEvaluator::refuse(const std::string& expected, const std::string& got) const {
  throw_invalid("[torchscript] ", origin().where, ": expected ", expected, ", got ", got, ".");
}

ScriptValue ScriptEvaluator::unknown_here(const std::string& reason) const {
  return {Unknown{.reason = reason, .where = origin().where}};
}

}  // namespace ravnest::engine
