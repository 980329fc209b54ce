#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/nodes.h"

namespace ravnest::engine {

namespace {

using torch::jit::Node;
using Values = ScriptEvaluator::Values;

c10::TypePtr element_type(const Node& node) {
  return node.output()->type()->expectRef<c10::ListType>().getElementType();
}

// What a dict lists of its items.
template <typename Pick>
void list_items(ScriptEvaluator& evaluator, const Node& node, Pick&& pick) {
  const ScriptDict* dict = find_dict(evaluator, node);
  if (dict == nullptr) {
    return evaluate_operator(evaluator, node);
  }
  Values items;
  for (const auto& [key, value] : dict->items) {
    items.push_back(pick(key, value));
  }
  evaluator.bind(node.output(), make_list(element_type(node), std::move(items)));
}

void keys(ScriptEvaluator& evaluator, const Node& node) {
  list_items(evaluator, node,
             [](const c10::IValue& key, const ScriptValue&) { return known(key); });
}

void values(ScriptEvaluator& evaluator, const Node& node) {
  list_items(evaluator, node, [](const c10::IValue&, const ScriptValue& value) { return value; });
}

void items(ScriptEvaluator& evaluator, const Node& node) {
  list_items(evaluator, node, [&node](const c10::IValue& key, const ScriptValue& value) {
    return make_tuple(element_type(node), {known(key), value});
  });
}

void get(ScriptEvaluator& evaluator, const Node& node) {
  const Values inputs = evaluator.inputs(node);
  ScriptDict* dict = inputs[0].dict();
  const auto* key = inputs[1].find<c10::IValue>();
  if (dict == nullptr || key == nullptr) {
    return evaluate_operator(evaluator, node);
  }
  const ScriptValue* found = dict->find(*key);
  const ScriptValue otherwise = inputs.size() > 2 ? inputs[2] : known({});
  evaluator.bind(node.output(), found == nullptr ? otherwise : *found);
}

void contains(ScriptEvaluator& evaluator, const Node& node) {
  ScriptDict* dict = find_dict(evaluator, node);
  const auto* key = evaluator.value(node.input(1)).find<c10::IValue>();
  if (dict == nullptr || key == nullptr) {
    return evaluate_operator(evaluator, node);
  }
  evaluator.bind(node.output(), known(dict->find(*key) != nullptr));
}

void update(ScriptEvaluator& evaluator, const Node& node) {
  ScriptDict* dict = find_dict(evaluator, node);
  const ScriptDict* more = dict == nullptr ? nullptr : evaluator.value(node.input(1)).dict();
  if (more == nullptr || dict->is_attribute) {
    return evaluate_operator(evaluator, node);
  }
  for (const auto& [key, value] : more->items) {
    if (ScriptValue* found = dict->find(key)) {
      *found = value;
    } else {
      dict->items.emplace_back(key, value);
    }
  }
}

}  // namespace

ScriptDict* find_dict(ScriptEvaluator& evaluator, const Node& node) {
  return node.inputs().empty() ? nullptr : evaluator.value(node.input(0)).dict();
}

void add_dict_nodes(NodeHandlers& handlers) {
  handlers["aten::keys"] = keys;
  handlers["aten::values"] = values;
  handlers["aten::items"] = items;
  handlers["aten::get"] = get;
  handlers["aten::__contains__"] = contains;
  handlers["aten::update"] = update;
}

}  // namespace ravnest::engine
