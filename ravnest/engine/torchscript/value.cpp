#include "ravnest/engine/torchscript/value.h"

#include <algorithm>

#include "ravnest/base/error.h"

namespace ravnest::engine {

bool ScriptValue::is_none() const {
  const auto* value = find<c10::IValue>();
  return value != nullptr && value->isNone();
}

std::optional<std::int64_t> ScriptValue::find_int() const {
  const auto* value = find<c10::IValue>();
  return value != nullptr && value->isInt() ? std::optional(value->toInt()) : std::nullopt;
}

ScriptValue* ScriptDict::find(const c10::IValue& key) {
  const auto found =
      std::ranges::find_if(items, [&key](const auto& item) { return item.first == key; });
  return found == items.end() ? nullptr : &found->second;
}

ScriptValue known(c10::IValue value) { return {std::move(value)}; }

ScriptValue make_list(c10::TypePtr element_type, std::vector<ScriptValue> items) {
  return {std::make_shared<ScriptList>(
      ScriptList{.element_type = std::move(element_type), .items = std::move(items)})};
}

ScriptValue make_tuple(c10::TypePtr type, std::vector<ScriptValue> items) {
  return {std::make_shared<ScriptTuple>(ScriptTuple{std::move(type), std::move(items)})};
}

void refuse_unknown(const Unknown& unknown) {
  throw_invalid("[torchscript] ", unknown.where,
                ": expected a forward that does the same for all data, got ", unknown.reason,
                ". Pass example inputs if it depends on shapes or dtypes; else write it without "
                "control flow (torch.where).");
}

const Unknown* find_unknown(const std::vector<ScriptValue>& values) {
  for (const ScriptValue& value : values) {
    if (const Unknown* found = find_unknown(value)) {
      return found;
    }
  }
  return nullptr;
}

const Unknown* find_unknown(const ScriptValue& value) {
  if (const auto* found = value.find<Unknown>()) {
    return found;
  }
  if (const auto* number = value.find<NumberTensor>()) {
    return find_unknown(number->tensor ? *number->tensor : *number->number);
  }
  if (const ScriptList* list = value.list()) {
    return find_unknown(list->items);
  }
  if (const ScriptTuple* tuple = value.tuple()) {
    return find_unknown(tuple->items);
  }
  if (ScriptDict* dict = value.dict()) {
    for (const auto& [key, item] : dict->items) {
      if (const Unknown* found = find_unknown(item)) {
        return found;
      }
    }
  }
  return nullptr;
}

bool is_fully_known(const ScriptValue& value) {
  if (value.find<c10::IValue>() != nullptr) {
    return true;
  }
  if (const ScriptList* list = value.list()) {
    return std::ranges::all_of(list->items, is_fully_known);
  }
  if (const ScriptTuple* tuple = value.tuple()) {
    return std::ranges::all_of(tuple->items, is_fully_known);
  }
  if (const ScriptDict* dict = value.dict()) {
    return std::ranges::all_of(dict->items,
                               [](const auto& item) { return is_fully_known(item.second); });
  }
  return false;
}

bool holds_tensors(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::TensorType) {
    return true;
  }
  if (type.kind() == c10::TypeKind::ClassType) {
    return false;
  }
  return std::ranges::any_of(type.containedTypes(),
                             [](const c10::TypePtr& inner) { return holds_tensors(*inner); });
}

}  // namespace ravnest::engine
