#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/nodes.h"
#include "ravnest/engine/torchscript/numbers.h"

namespace ravnest::engine {

namespace {

using torch::jit::Node;
using Values = ScriptEvaluator::Values;

constexpr std::size_t kLongestList = 1'000'000;

template <typename Container>
Container& changeable(ScriptEvaluator& evaluator, Container& container) {
  if (container.is_attribute) {
    evaluator.refuse("a forward that leaves its module alone",
                     "a change of a list or dict that belongs to the module");
  }
  return container;
}

// The place an index means, or nothing (after binding the outputs to unknown) if data tells it.
std::optional<std::size_t> place_of(ScriptEvaluator& evaluator, const Node& node,
                                    const ScriptValue& index, std::size_t size) {
  const auto number = index.find_int();
  if (!number) {
    evaluator.bind_all(node, evaluator.unknown_here("an element chosen by data"));
    return std::nullopt;
  }
  const std::int64_t place = *number < 0 ? *number + static_cast<std::int64_t>(size) : *number;
  if (place < 0 || place >= static_cast<std::int64_t>(size)) {
    evaluator.refuse(concat("an index into a list of ", size), concat(*number));
  }
  return static_cast<std::size_t>(place);
}

// The place of a change, from 0 to `last`; a negative one counts from the end. One that is unknown
// cannot be followed.
std::size_t known_place(ScriptEvaluator& evaluator, const ScriptValue& index, std::size_t size,
                        std::size_t last) {
  const auto number = index.find_int();
  const auto limit = static_cast<std::int64_t>(size);
  if (!number || *number < -limit || *number > static_cast<std::int64_t>(last)) {
    evaluator.refuse("changes of lists at places that exist",
                     number ? concat("one at ", *number) : "one at a place that data tells");
  }
  return static_cast<std::size_t>(*number < 0 ? *number + limit : *number);
}

const c10::IValue& known_key(ScriptEvaluator& evaluator, const ScriptValue& key) {
  const auto* constant = key.find<c10::IValue>();
  if (constant == nullptr) {
    evaluator.refuse("dicts with constant keys", "a key that is computed");
  }
  return *constant;
}

void get_item(ScriptEvaluator& evaluator, const Node& node) {
  const Values inputs = evaluator.inputs(node);
  if (const auto* shape = inputs[0].find<ShapeOf>(); shape != nullptr && inputs[1].find_int()) {
    return evaluator.bind(node.output(), size_of(evaluator, shape->tensor, *inputs[1].find_int()));
  }
  if (const ScriptList* list = inputs[0].list()) {
    if (const auto place = place_of(evaluator, node, inputs[1], list->items.size())) {
      evaluator.bind(node.output(), list->items[*place]);
    }
    return;
  }
  if (ScriptDict* dict = inputs[0].dict()) {
    const ScriptValue* found = dict->find(known_key(evaluator, inputs[1]));
    if (found == nullptr) {
      evaluator.refuse("a key that is in the dict", "one that is not");
    }
    return evaluator.bind(node.output(), *found);
  }
  evaluate_operator(evaluator, node);
}

void set_in_dict(ScriptDict& dict, const c10::IValue& key, const ScriptValue& value) {
  if (ScriptValue* found = dict.find(key)) {
    *found = value;
  } else {
    dict.items.emplace_back(key, value);
  }
}

void set_item(ScriptEvaluator& evaluator, const Node& node) {
  const Values inputs = evaluator.inputs(node);
  if (ScriptList* list = inputs[0].list()) {
    if (list->items.empty()) {
      evaluator.refuse("a change of a list that has items", "an empty list");
    }
    const std::size_t size = list->items.size();
    const std::size_t place = known_place(evaluator, inputs[1], size, size - 1);
    changeable(evaluator, *list).items.at(place) = inputs[2];
    return evaluator.bind_all(node, inputs[0]);
  }
  if (ScriptDict* dict = inputs[0].dict()) {
    set_in_dict(changeable(evaluator, *dict), known_key(evaluator, inputs[1]), inputs[2]);
    return;
  }
  evaluate_operator(evaluator, node);
}

void append(ScriptEvaluator& evaluator, const Node& node) {
  ScriptList* list = find_list(evaluator, node);
  if (list == nullptr) {
    return evaluate_operator(evaluator, node);
  }
  if (list->items.size() >= kLongestList) {
    evaluator.refuse("lists of reasonable length", "one that grows without end");
  }
  changeable(evaluator, *list).items.push_back(evaluator.value(node.input(1)));
  evaluator.bind_all(node, evaluator.value(node.input(0)));
}

// extend, +=
void extend(ScriptEvaluator& evaluator, const Node& node) {
  ScriptList* list = find_list(evaluator, node);
  const ScriptList* more = list == nullptr ? nullptr : evaluator.value(node.input(1)).list();
  if (more == nullptr || list->items.size() + more->items.size() > kLongestList) {
    return evaluate_operator(evaluator, node);
  }
  const Values added = more->items;
  auto& items = changeable(evaluator, *list).items;
  items.insert(items.end(), added.begin(), added.end());
  evaluator.bind_all(node, evaluator.value(node.input(0)));
}

void insert(ScriptEvaluator& evaluator, const Node& node) {
  ScriptList* list = find_list(evaluator, node);
  if (list == nullptr) {
    return evaluate_operator(evaluator, node);
  }
  const std::size_t size = list->items.size();
  const std::size_t place = known_place(evaluator, evaluator.value(node.input(1)), size, size);
  auto& items = changeable(evaluator, *list).items;
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(place), evaluator.value(node.input(2)));
}

void pop_from_dict(ScriptEvaluator& evaluator, const Node& node, ScriptDict& dict) {
  const c10::IValue key = known_key(evaluator, evaluator.value(node.input(1)));
  auto& items = changeable(evaluator, dict).items;
  const auto found =
      std::ranges::find_if(items, [&key](const auto& item) { return item.first == key; });
  if (found != items.end()) {
    evaluator.bind_all(node, ScriptValue(found->second));
    items.erase(found);
  } else if (node.inputs().size() > 2) {
    evaluator.bind_all(node, ScriptValue(evaluator.value(node.input(2))));
  } else {
    evaluator.refuse("a key that is in the dict", "one that is not");
  }
}

// pop, del
void pop(ScriptEvaluator& evaluator, const Node& node) {
  if (ScriptDict* dict = find_dict(evaluator, node)) {
    return pop_from_dict(evaluator, node, *dict);
  }
  ScriptList* list = find_list(evaluator, node);
  if (list == nullptr || list->items.empty()) {
    return evaluate_operator(evaluator, node);
  }
  const std::size_t size = list->items.size();
  const std::size_t place = known_place(evaluator, evaluator.value(node.input(1)), size, size - 1);
  auto& items = changeable(evaluator, *list).items;
  evaluator.bind_all(node, ScriptValue(items.at(place)));
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(place));
}

void clear(ScriptEvaluator& evaluator, const Node& node) {
  if (ScriptDict* dict = find_dict(evaluator, node)) {
    changeable(evaluator, *dict).items.clear();
  } else if (ScriptList* list = find_list(evaluator, node)) {
    changeable(evaluator, *list).items.clear();
  }
}

void reverse(ScriptEvaluator& evaluator, const Node& node) {
  ScriptList* list = find_list(evaluator, node);
  if (list == nullptr) {
    return evaluate_operator(evaluator, node);
  }
  std::ranges::reverse(changeable(evaluator, *list).items);
}

void length(ScriptEvaluator& evaluator, const Node& node) {
  const ScriptValue& value = evaluator.value(node.input());
  if (const ScriptList* list = value.list()) {
    evaluator.bind(node.output(), known(static_cast<std::int64_t>(list->items.size())));
  } else if (const ScriptDict* dict = value.dict()) {
    evaluator.bind(node.output(), known(static_cast<std::int64_t>(dict->items.size())));
  } else if (value.find<ShapeOf>() != nullptr) {
    evaluator.bind(node.output(), evaluator.unknown_here("the number of dimensions of a tensor"));
  } else if (const auto* tensor = value.find<Dynamic>()) {
    evaluator.bind(node.output(), size_of(evaluator, tensor->id, 0));
  } else {
    evaluate_operator(evaluator, node);
  }
}

void concatenate(ScriptEvaluator& evaluator, const Node& node) {
  const ScriptList* list = find_list(evaluator, node);
  const ScriptList* more = list == nullptr ? nullptr : evaluator.value(node.input(1)).list();
  if (more == nullptr || list->items.size() + more->items.size() > kLongestList) {
    return evaluate_operator(evaluator, node);
  }
  Values items = list->items;
  items.insert(items.end(), more->items.begin(), more->items.end());
  evaluator.bind(node.output(), make_list(list->element_type, std::move(items)));
}

// [x] * n
void repeat(ScriptEvaluator& evaluator, const Node& node) {
  const bool list_first = find_list(evaluator, node) != nullptr;
  if (node.inputs().size() != 2) {
    return evaluate_operator(evaluator, node);
  }
  const ScriptList* list = evaluator.value(node.input(list_first ? 0 : 1)).list();
  const auto count = evaluator.value(node.input(list_first ? 1 : 0)).find_int();
  if (list == nullptr || !count) {
    return evaluate_operator(evaluator, node);
  }
  if (!list->items.empty() &&
      *count > static_cast<std::int64_t>(kLongestList / list->items.size())) {
    evaluator.refuse("lists of reasonable length", concat(*count, " repetitions"));
  }
  Values items;
  for (std::int64_t i = 0; i < *count; ++i) {
    items.insert(items.end(), list->items.begin(), list->items.end());
  }
  evaluator.bind(node.output(), make_list(list->element_type, std::move(items)));
}

// list[start:end:step], with Python's rules
void slice(ScriptEvaluator& evaluator, const Node& node) {
  const Values inputs = evaluator.inputs(node);
  const ScriptList* list = inputs[0].list();
  if (list == nullptr) {
    return evaluate_operator(evaluator, node);
  }
  const auto size = static_cast<std::int64_t>(list->items.size());
  const auto step = inputs[3].find_int();
  const auto bound = [&](const ScriptValue& value, std::int64_t otherwise) {
    const std::int64_t number = value.find_int().value_or(otherwise);
    return std::clamp<std::int64_t>(number < 0 ? number + size : number, 0, size);
  };
  const auto is_told = [](const ScriptValue& value) {
    return value.is_none() || value.find_int().has_value();
  };
  if (!is_told(inputs[1]) || !is_told(inputs[2]) || !step || *step <= 0) {
    return evaluator.bind(node.output(), evaluator.unknown_here("a part of a list"));
  }
  const std::int64_t end = bound(inputs[2], size);
  Values items;
  for (std::int64_t i = bound(inputs[1], 0); i < end; i += *step) {
    items.push_back(list->items[static_cast<std::size_t>(i)]);
  }
  evaluator.bind(node.output(), make_list(list->element_type, std::move(items)));
}

// list(x), x.copy(), dict(x)
void copy(ScriptEvaluator& evaluator, const Node& node) {
  if (const ScriptList* list = find_list(evaluator, node)) {
    return evaluator.bind(node.output(), make_list(list->element_type, list->items));
  }
  if (const ScriptDict* dict = find_dict(evaluator, node)) {
    auto copied = std::make_shared<ScriptDict>(*dict);
    copied->is_attribute = false;
    return evaluator.bind(node.output(), {std::move(copied)});
  }
  if (!node.inputs().empty() && evaluator.value(node.input(0)).find<ShapeOf>() != nullptr) {
    return evaluator.bind(node.output(), ScriptValue(evaluator.value(node.input(0))));
  }
  evaluate_operator(evaluator, node);
}

}  // namespace

ScriptList* find_list(ScriptEvaluator& evaluator, const Node& node) {
  return node.inputs().empty() ? nullptr : evaluator.value(node.input(0)).list();
}

void add_list_nodes(NodeHandlers& handlers) {
  handlers["aten::__getitem__"] = get_item;
  handlers["aten::_set_item"] = set_item;
  handlers["aten::append"] = append;
  handlers["aten::extend"] = extend;
  handlers["aten::add_"] = extend;
  handlers["aten::insert"] = insert;
  handlers["aten::pop"] = pop;
  handlers["aten::Delete"] = pop;
  handlers["aten::clear"] = clear;
  handlers["aten::reverse"] = reverse;
  handlers["aten::len"] = length;
  handlers["aten::add"] = concatenate;
  handlers["aten::mul"] = repeat;
  handlers["aten::slice"] = slice;
  handlers["aten::list"] = copy;
  handlers["aten::copy"] = copy;
  handlers["aten::dict"] = copy;
}

}  // namespace ravnest::engine
