#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/nodes.h"
#include "ravnest/engine/torchscript/numbers.h"

namespace ravnest::engine {

namespace {

using torch::jit::Node;
using Values = ScriptEvaluator::Values;

// Tracing writes the factors of sizes as tensors without dimensions.
bool is_traced_number(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().dim() == 0 &&
         value.toTensor().scalar_type() == c10::kLong;
}

void constant(ScriptEvaluator& evaluator, const Node& node) {
  if (node.output()->type()->kind() == c10::TypeKind::FunctionType) {
    return evaluator.bind(node.output(), known({}));
  }
  const auto value = torch::jit::toIValue(node.output());
  if (!value) {
    evaluator.refuse("constants of TorchScript", node.output()->type()->repr_str());
  }
  ScriptValue lifted = evaluator.lift(*value, "lifted_constant");
  if (is_traced_number(*value)) {
    lifted = {NumberTensor{
        .number = std::make_shared<const ScriptValue>(known(value->toTensor().item<int64_t>())),
        .tensor = std::make_shared<const ScriptValue>(lifted)}};
  }
  evaluator.bind(node.output(), std::move(lifted));
}

void uninitialized(ScriptEvaluator& evaluator, const Node& node) {
  evaluator.bind(node.output(), evaluator.unknown_here("a variable that was never set"));
}

void pass_through(ScriptEvaluator& evaluator, const Node& node) {
  evaluator.bind(node.output(), evaluator.value(node.input(0)));
}

void construct_list(ScriptEvaluator& evaluator, const Node& node) {
  const auto& type = node.output()->type()->expectRef<c10::ListType>();
  evaluator.bind(node.output(), make_list(type.getElementType(), evaluator.inputs(node)));
}

void construct_tuple(ScriptEvaluator& evaluator, const Node& node) {
  evaluator.bind(node.output(), make_tuple(node.output()->type(), evaluator.inputs(node)));
}

void construct_dict(ScriptEvaluator& evaluator, const Node& node) {
  const auto& type = node.output()->type()->expectRef<c10::DictType>();
  ScriptDict made{.key_type = type.getKeyType(), .value_type = type.getValueType(), .items = {}};
  const Values inputs = evaluator.inputs(node);
  for (std::size_t i = 0; i + 1 < inputs.size(); i += 2) {
    const auto* key = inputs[i].find<c10::IValue>();
    if (key == nullptr) {
      evaluator.refuse("dicts with constant keys", "a key that is computed");
    }
    if (ScriptValue* present = made.find(*key)) {
      *present = inputs[i + 1];
    } else {
      made.items.emplace_back(*key, inputs[i + 1]);
    }
  }
  evaluator.bind(node.output(), {std::make_shared<ScriptDict>(std::move(made))});
}

void bind_items(ScriptEvaluator& evaluator, const Node& node, const Values& items) {
  if (items.size() != node.outputs().size()) {
    evaluator.refuse(concat(node.outputs().size(), " values to unpack"), concat(items.size()));
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    evaluator.bind(node.outputs()[i], items[i]);
  }
}

void unpack(ScriptEvaluator& evaluator, const Node& node) {
  const ScriptValue& packed = evaluator.value(node.input());
  if (const ScriptList* list = packed.list()) {
    return bind_items(evaluator, node, Values(list->items));
  }
  if (const ScriptTuple* tuple = packed.tuple()) {
    return bind_items(evaluator, node, Values(tuple->items));
  }
  if (const auto* shape = packed.find<ShapeOf>()) {
    Values sizes;
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      sizes.push_back(size_of(evaluator, shape->tensor, static_cast<std::int64_t>(i)));
    }
    return bind_items(evaluator, node, sizes);
  }
  const Unknown* reason = find_unknown(packed);
  evaluator.bind_all(
      node, reason != nullptr ? ScriptValue{*reason} : evaluator.unknown_here("what is unpacked"));
}

void index_tuple(ScriptEvaluator& evaluator, const Node& node) {
  const ScriptTuple* tuple = evaluator.value(node.input(0)).tuple();
  const auto index = evaluator.value(node.input(1)).find_int();
  if (tuple == nullptr || !index) {
    return evaluator.bind(node.output(), evaluator.unknown_here("an element of a tuple"));
  }
  const auto size = static_cast<std::int64_t>(tuple->items.size());
  const std::int64_t place = *index < 0 ? *index + size : *index;
  if (place < 0 || place >= size) {
    evaluator.refuse(concat("an index into a tuple of ", size), concat(*index));
  }
  evaluator.bind(node.output(), ScriptValue(tuple->items[static_cast<std::size_t>(place)]));
}

void slice_tuple(ScriptEvaluator& evaluator, const Node& node) {
  const ScriptTuple* tuple = evaluator.value(node.input(0)).tuple();
  if (tuple == nullptr) {
    return evaluator.bind(node.output(), evaluator.unknown_here("a part of a tuple"));
  }
  const auto size = static_cast<std::int64_t>(tuple->items.size());
  const std::int64_t begin = std::clamp<std::int64_t>(node.i(c10::attr::beg), 0, size);
  const std::int64_t end = std::clamp<std::int64_t>(node.i(c10::attr::end), begin, size);
  evaluator.bind(node.output(),
                 make_tuple(node.output()->type(),
                            Values(tuple->items.begin() + begin, tuple->items.begin() + end)));
}

bool is_one(const ScriptValue& a, const ScriptValue& b) {
  const auto* tensor = a.find<Dynamic>();
  if (tensor != nullptr) {
    return b.find<Dynamic>() != nullptr && tensor->id == b.find<Dynamic>()->id;
  }
  const auto* constant = a.find<c10::IValue>();
  if (constant != nullptr) {
    return b.find<c10::IValue>() != nullptr && constant->is(*b.find<c10::IValue>());
  }
  return (a.list() != nullptr && a.list() == b.list()) ||
         (a.tuple() != nullptr && a.tuple() == b.tuple()) ||
         (a.dict() != nullptr && a.dict() == b.dict()) ||
         (a.object() != nullptr && a.object() == b.object());
}

// `x is None`, `x is not None`: a value of the graph is never None.
void is_same(ScriptEvaluator& evaluator, const Node& node) {
  const Values both = evaluator.inputs(node);
  const bool negated = node.kind() == c10::aten::__isnot__;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!both[i].is_none()) {
      continue;
    }
    const ScriptValue& other = both[1 - i];
    if (other.find<Unknown>() != nullptr) {
      return evaluator.bind(node.output(), other);
    }
    return evaluator.bind(node.output(), known(other.is_none() != negated));
  }
  for (const ScriptValue& one : both) {
    if (one.find<Unknown>() != nullptr) {
      return evaluator.bind(node.output(), one);
    }
  }
  evaluator.bind(node.output(), known(is_one(both[0], both[1]) != negated));
}

c10::TypePtr type_of(const ScriptGraph& graph, const ScriptValue& value,
                     const c10::TypePtr& otherwise) {
  if (const auto* constant = value.find<c10::IValue>()) {
    return constant->type();
  }
  if (const auto* dynamic = value.find<Dynamic>()) {
    switch (graph.kind_of(dynamic->id)) {
      case graph::ValueKind::kTensor:
        return c10::TensorType::get();
      case graph::ValueKind::kInt:
        return c10::IntType::get();
      case graph::ValueKind::kFloat:
        return c10::FloatType::get();
      case graph::ValueKind::kBool:
        return c10::BoolType::get();
    }
  }
  if (value.find<NumberTensor>() != nullptr) {
    return c10::TensorType::get();
  }
  if (const ScriptList* list = value.list()) {
    return c10::ListType::create(list->element_type);
  }
  if (const ScriptTuple* tuple = value.tuple()) {
    return tuple->type;
  }
  if (const ScriptDict* dict = value.dict()) {
    return c10::DictType::create(dict->key_type, dict->value_type);
  }
  if (const ScriptObject* object = value.object()) {
    return object->type;
  }
  return otherwise;
}

void is_instance(ScriptEvaluator& evaluator, const Node& node) {
  const c10::TypePtr type =
      type_of(evaluator.graph(), evaluator.value(node.input()), node.input()->type());
  const auto& wanted = node.tys(c10::attr::types);
  const bool found = std::ranges::any_of(
      wanted, [&type](const c10::TypePtr& one) { return type->isSubtypeOf(*one); });
  evaluator.bind(node.output(), known(found));
}

}  // namespace

void add_container_nodes(NodeHandlers& handlers) {
  handlers["prim::Constant"] = constant;
  handlers["prim::Uninitialized"] = uninitialized;
  for (const char* name : {"prim::unchecked_cast", "prim::unchecked_unwrap_optional",
                           "aten::_unwrap_optional", "aten::Size", "aten::list_with_default"}) {
    handlers[name] = pass_through;
  }
  handlers["prim::ListConstruct"] = construct_list;
  handlers["prim::ListUnpack"] = unpack;
  handlers["prim::TupleConstruct"] = construct_tuple;
  handlers["prim::TupleUnpack"] = unpack;
  handlers["prim::TupleIndex"] = index_tuple;
  handlers["prim::TupleSlice"] = slice_tuple;
  handlers["prim::DictConstruct"] = construct_dict;
  handlers["aten::__is__"] = is_same;
  handlers["aten::__isnot__"] = is_same;
  handlers["prim::isinstance"] = is_instance;
}

}  // namespace ravnest::engine
