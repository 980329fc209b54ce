#include "ravnest/graph/program.h"

#include <algorithm>
#include <unordered_map>

#include "ravnest/base/error.h"

namespace ravnest::graph {

const Argument* Op::find_argument(std::string_view name) const {
  const auto found = std::ranges::find(arguments, name, &NamedArgument::name);
  return found == arguments.end() ? nullptr : &found->value;
}

ValueId Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size() - 1);
}

std::optional<ValueId> Graph::find_value(std::string_view name) const {
  const auto found = std::ranges::find(values, name, &Value::name);
  if (found == values.end()) {
    return std::nullopt;
  }
  return static_cast<ValueId>(found - values.begin());
}

std::vector<const Input*> Graph::user_inputs() const {
  std::vector<const Input*> found;
  for (const Input& input : inputs) {
    if (!input.is_weight()) {
      found.push_back(&input);
    }
  }
  return found;
}

SymbolValues Graph::hints() const {
  SymbolValues values_by_name;
  for (const auto& [name, symbol] : symbols) {
    values_by_name[name] = symbol.hint;
  }
  return values_by_name;
}

const Weight* Program::find_weight(std::string_view name) const {
  const auto found = std::ranges::find(weights, name, &Weight::name);
  return found == weights.end() ? nullptr : &*found;
}

const Weight& Program::canonical(const Weight& weight) const {
  const auto found = std::ranges::find_if(weights, [&weight](const Weight& candidate) {
    return candidate.storage_key == weight.storage_key && candidate.type == weight.type;
  });
  RAVNEST_CHECK(found != weights.end());
  return *found;
}

void settle_weight_names(Program& program) {
  std::unordered_map<std::string, std::string> first_of_key;
  std::unordered_map<std::string, const Weight*> by_name;
  std::unordered_map<std::string, std::vector<const Weight*>> by_key;
  for (Weight& weight : program.weights) {
    weight.storage_key = first_of_key.try_emplace(weight.storage_key, weight.name).first->second;
    by_name.emplace(weight.name, &weight);
    by_key[weight.storage_key].push_back(&weight);
  }
  const auto settle = [&](Graph& graph) {
    for (Input& input : graph.inputs) {
      if (!input.is_weight()) {
        continue;
      }
      const auto found = by_name.find(input.target);
      RAVNEST_CHECK(found != by_name.end());
      const Weight& weight = *found->second;
      const auto& sharing = by_key[weight.storage_key];
      const auto first = std::ranges::find_if(
          sharing, [&weight](const Weight* other) { return other->type == weight.type; });
      input.target = (*first)->name;
    }
  };
  settle(program.graph);
  if (program.eval_graph) {
    settle(*program.eval_graph);
  }
}

std::optional<std::int64_t> numel(const TensorType& type, const SymbolValues& symbols) {
  std::int64_t count = 1;
  for (const Expr& size : type.sizes) {
    const auto extent = size.evaluate(symbols);
    if (!extent || *extent < 0 || __builtin_mul_overflow(count, *extent, &count)) {
      return std::nullopt;
    }
  }
  return count;
}

std::optional<std::int64_t> nbytes(const TensorType& type, const SymbolValues& symbols) {
  std::int64_t bytes = 0;
  const auto count = numel(type, symbols);
  if (!type.is_known() || !count ||
      __builtin_mul_overflow(*count, static_cast<std::int64_t>(element_size(type.dtype)), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace ravnest::graph
