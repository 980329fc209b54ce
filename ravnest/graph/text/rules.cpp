#include "ravnest/graph/text/rules.h"

#include <algorithm>
#include <array>

namespace ravnest::graph {

namespace {

// Bounds what a short text of many symbolic sizes grows into.
constexpr std::size_t kMaxFactors = 8;

// In the order of the enumerators.
constexpr std::array<std::string_view, 7> kListKinds{
    "tensors", "optional_tensors", "ints", "floats", "bools", "strings", "lists"};
constexpr std::array<std::string_view, 5> kInputKinds{"parameter", "buffer", "constant", "input",
                                                      "literal"};

template <typename Kind, typename Names>
std::optional<Kind> find_in(const Names& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? std::nullopt
                              : std::optional(static_cast<Kind>(found - names.begin()));
}

ListKind kind_of_values(const Graph& graph, const Ref& ref) {
  if (ref.id >= graph.values.size()) {
    return ListKind::kTensors;
  }
  switch (graph.value(ref.id).kind) {
    case ValueKind::kInt:
      return ListKind::kInts;
    case ValueKind::kFloat:
      return ListKind::kFloats;
    case ValueKind::kBool:
      return ListKind::kBools;
    case ValueKind::kTensor:
      break;
  }
  return ListKind::kTensors;
}

ListKind kind_of_items(const Graph& graph, const Argument& item) {
  if (const Ref* ref = item.find_ref()) {
    return kind_of_values(graph, *ref);
  }
  if (item.find_list() != nullptr) {
    return ListKind::kLists;
  }
  if (std::holds_alternative<double>(item.value)) {
    return ListKind::kFloats;
  }
  if (std::holds_alternative<bool>(item.value)) {
    return ListKind::kBools;
  }
  if (std::holds_alternative<std::string>(item.value)) {
    return ListKind::kStrings;
  }
  return ListKind::kInts;
}

// A number times some sizes that are not numbers.
struct SizeProduct {
  std::int64_t number = 1;
  std::vector<Expr> factors;

  bool multiply(const Expr& size) {
    if (size.is_constant()) {
      return multiply(std::max<std::int64_t>(size.constant(), 1));
    }
    const std::string* function = size.find_function();
    const std::vector<Expr>& arguments = size.arguments();
    if (function != nullptr && *function == "Mul" && arguments.size() == 2 &&
        arguments[0].is_constant()) {
      return multiply(arguments[0].constant()) && multiply(arguments[1]);
    }
    factors.push_back(size);
    return factors.size() <= kMaxFactors && size.depth() < Expr::kMaxDepth;
  }

  bool multiply(std::int64_t factor) { return !__builtin_mul_overflow(number, factor, &number); }

  Expr expr() const {
    std::vector<Expr> all;
    if (number != 1 || factors.empty()) {
      all.emplace_back(number);
    }
    all.insert(all.end(), factors.begin(), factors.end());
    return all.size() == 1 ? all[0] : Expr::call("Mul", std::move(all));
  }
};

}  // namespace

std::string_view name_of(ListKind kind) { return kListKinds.at(static_cast<std::size_t>(kind)); }

std::optional<ListKind> find_list_kind(std::string_view name) {
  return find_in<ListKind>(kListKinds, name);
}

std::string_view name_of(InputKind kind) { return kInputKinds.at(static_cast<std::size_t>(kind)); }

std::optional<InputKind> find_input_kind(std::string_view name) {
  return find_in<InputKind>(kInputKinds, name);
}

ListKind infer_list_kind(const Graph& graph, std::span<const Argument> items) {
  const auto said = std::ranges::find_if_not(items, &Argument::is_none);
  if (said == items.end()) {
    return items.empty() ? ListKind::kInts : ListKind::kOptionalTensors;
  }
  const ListKind kind = kind_of_items(graph, *said);
  const bool some_none = std::ranges::any_of(items, &Argument::is_none);
  return kind == ListKind::kTensors && some_none ? ListKind::kOptionalTensors : kind;
}

std::optional<std::vector<Expr>> contiguous_strides(std::span<const Expr> sizes) {
  std::vector<Expr> strides(sizes.size());
  SizeProduct product;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = product.expr();
    if (i > 0 && !product.multiply(sizes[i])) {
      return std::nullopt;
    }
  }
  return strides;
}

}  // namespace ravnest::graph
