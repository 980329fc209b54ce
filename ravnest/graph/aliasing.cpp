#include "ravnest/graph/aliasing.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "ravnest/graph/operators.h"

namespace ravnest::graph {

namespace {

constexpr std::array<std::string_view, 12> kMayCopy{
    "aten.reshape.",
    "aten.reshape_as.",
    "aten.contiguous.",
    "aten.flatten.",
    "aten.to.",
    "aten.type_as.",
    "aten.ravel.",
    "aten.dropout.",
    "aten.alpha_dropout.",
    "aten.feature_dropout.",
    "aten.feature_alpha_dropout.",
    "aten.meshgrid.",
};

constexpr std::array<std::string_view, 3> kChangedOthers{"running_mean", "running_var", "noise"};

}  // namespace

std::optional<ValueId> first_tensor(const Graph& graph, const Op& op) {
  std::optional<ValueId> found;
  for_each_ref(op, [&](ValueId id) {
    if (!found && graph.value(id).kind == ValueKind::kTensor) {
      found = id;
    }
  });
  return found;
}

bool always_shares(const Op& op) {
  return std::ranges::none_of(
      kMayCopy, [&op](std::string_view prefix) { return op.target.starts_with(prefix); });
}

Aliasing::Aliasing(const Graph& graph)
    : same(graph.values.size()),
      root(graph.values.size()),
      definer(graph.values.size()),
      changed(graph.ops.size()) {
  std::iota(same.begin(), same.end(), 0);
  std::iota(root.begin(), root.end(), 0);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const OperatorTraits traits = find_operator(op.target).value_or(OperatorTraits{});
    const auto tensor = first_tensor(graph, op);
    for_each_result(op, [&](ValueId id) {
      definer[id] = i;
      if (tensor && (traits.aliases || traits.mutates)) {
        root[id] = root[*tensor];
      }
      if (tensor && traits.mutates) {
        same[id] = same[*tensor];
      }
    });
    if (traits.mutates && tensor) {
      changed[i].push_back(root[*tensor]);
    }
    if (traits.mutates_other) {
      for (const NamedArgument& argument : op.arguments) {
        const Ref* ref = argument.value.find_ref();
        if (ref != nullptr && std::ranges::count(kChangedOthers, argument.name) > 0) {
          changed[i].push_back(root[ref->id]);
        }
      }
    }
  }
}

}  // namespace ravnest::graph
