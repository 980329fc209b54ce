#include "ravnest/graph/cost/op_view.h"

#include <algorithm>

namespace ravnest::graph {

namespace {

const Shape kUnknownShape;

}  // namespace

OpView::OpView(const Graph& graph, const Op& op, std::span<const Shape> shapes,
               const SymbolValues& symbols)
    : graph_(graph), op_(op), shapes_(shapes), symbols_(symbols), name_(op.target) {
  constexpr std::string_view kNamespace = "aten.";
  if (!name_.starts_with(kNamespace)) {
    return;
  }
  name_.remove_prefix(kNamespace.size());
  if (const std::size_t dot = name_.find('.'); dot != std::string_view::npos) {
    overload_ = name_.substr(dot + 1);
    name_ = name_.substr(0, dot);
  }
  if (name_.ends_with('_') && !name_.ends_with("__")) {
    in_place_ = true;
    name_.remove_suffix(1);
  }
}

std::optional<ValueId> OpView::find_tensor(std::string_view argument) const {
  const Argument* found = op_.find_argument(argument);
  const Ref* ref = found == nullptr ? nullptr : found->find_ref();
  if (ref == nullptr || graph_.value(ref->id).kind != ValueKind::kTensor) {
    return std::nullopt;
  }
  return ref->id;
}

std::optional<ValueId> OpView::find_tensor(
    std::initializer_list<std::string_view> arguments) const {
  for (const std::string_view argument : arguments) {
    if (const std::optional<ValueId> found = find_tensor(argument)) {
      return found;
    }
  }
  return std::nullopt;
}

std::vector<ValueId> OpView::tensors(std::string_view argument) const {
  std::vector<ValueId> found;
  if (const Argument* value = op_.find_argument(argument)) {
    for_each_ref(*value, [&](ValueId id) {
      if (graph_.value(id).kind == ValueKind::kTensor) {
        found.push_back(id);
      }
    });
  }
  return found;
}

std::vector<ValueId> OpView::tensors() const {
  std::vector<ValueId> found;
  for_each_ref(op_, [&](ValueId id) {
    if (graph_.value(id).kind == ValueKind::kTensor) {
      found.push_back(id);
    }
  });
  return found;
}

std::optional<ValueId> OpView::find_result(std::size_t index) const {
  if (index >= op_.results.size() || op_.results[index].values.empty()) {
    return std::nullopt;
  }
  const ValueId id = op_.results[index].values.front();
  return graph_.value(id).kind == ValueKind::kTensor ? std::optional(id) : std::nullopt;
}

std::vector<ValueId> OpView::results() const {
  std::vector<ValueId> found;
  for_each_result(op_, [&](ValueId id) {
    if (graph_.value(id).kind == ValueKind::kTensor) {
      found.push_back(id);
    }
  });
  return found;
}

std::optional<std::int64_t> OpView::find_integer(const Argument& argument) const {
  if (const auto* value = std::get_if<std::int64_t>(&argument.value)) {
    return *value;
  }
  const Ref* ref = argument.find_ref();
  if (ref != nullptr && graph_.value(ref->id).kind == ValueKind::kInt) {
    return graph_.value(ref->id).expr.evaluate(symbols_);
  }
  return std::nullopt;
}

std::int64_t OpView::integer(std::string_view argument, std::int64_t otherwise) const {
  const Argument* found = op_.find_argument(argument);
  return found == nullptr ? otherwise : find_integer(*found).value_or(otherwise);
}

std::vector<std::int64_t> OpView::integers(std::string_view argument) const {
  std::vector<std::int64_t> values;
  const Argument* found = op_.find_argument(argument);
  if (found == nullptr) {
    return values;
  }
  if (const List* list = found->find_list()) {
    for (const Argument& item : list->items) {
      values.push_back(find_integer(item).value_or(1));
    }
  } else if (const std::optional<std::int64_t> single = find_integer(*found)) {
    values.push_back(*single);
  }
  return values;
}

double OpView::number(std::string_view argument, double otherwise) const {
  const Argument* found = op_.find_argument(argument);
  if (found == nullptr) {
    return otherwise;
  }
  if (const auto* value = std::get_if<double>(&found->value)) {
    return *value;
  }
  const std::optional<std::int64_t> whole = find_integer(*found);
  return whole ? static_cast<double>(*whole) : otherwise;
}

bool OpView::flag(std::string_view argument, bool otherwise) const {
  const Argument* found = op_.find_argument(argument);
  const bool* value = found == nullptr ? nullptr : std::get_if<bool>(&found->value);
  return value == nullptr ? otherwise : *value;
}

std::string_view OpView::text(std::string_view argument) const {
  const Argument* found = op_.find_argument(argument);
  const auto* value = found == nullptr ? nullptr : std::get_if<std::string>(&found->value);
  return value == nullptr ? std::string_view{} : std::string_view(*value);
}

const Shape& OpView::shape(std::string_view argument) const {
  const std::optional<ValueId> id = find_tensor(argument);
  return id ? shapes_[*id] : kUnknownShape;
}

const Shape& OpView::result_shape(std::size_t index) const {
  const std::optional<ValueId> id = find_result(index);
  return id ? shapes_[*id] : kUnknownShape;
}

bool OpView::is_known() const {
  const auto known = [this](ValueId id) { return shapes_[id].known; };
  return std::ranges::all_of(tensors(), known) && std::ranges::all_of(results(), known);
}

}  // namespace ravnest::graph
