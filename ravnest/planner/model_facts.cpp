#include "ravnest/planner/model_facts.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "ravnest/base/error.h"
#include "ravnest/graph/cost/pass_memory.h"

namespace ravnest::planner {

using graph::ValueId;

ModelFacts::ModelFacts(const graph::Program& program, const graph::SymbolValues& symbols)
    : graph(program.graph),
      costs(graph::estimate_costs(program.graph, symbols)),
      aliasing(program.graph),
      weight_of(program.graph.values.size(), kNone),
      uses(program.graph.ops.size()),
      user_inputs(program.graph.ops.size()),
      overheads(program.graph.ops.size(), 0) {
  if (costs.known) {
    overheads = graph::PassMemory(graph, costs).overheads();
  }
  find_weights(program);
  find_uses();
  find_crossings();
}

void ModelFacts::find_weights(const graph::Program& program) {
  std::unordered_map<std::string_view, const graph::Weight*> by_name;
  for (const graph::Weight& weight : program.weights) {
    by_name.emplace(weight.name, &weight);
  }
  // Tied weights may come in as several inputs of one name.
  std::unordered_map<std::string_view, std::size_t> places;
  for (const graph::Input& input : graph.inputs) {
    if (!input.is_weight()) {
      continue;
    }
    const auto [place, is_new] = places.emplace(input.target, weights.size());
    weight_of[input.value] = place->second;
    if (!is_new) {
      continue;
    }
    const auto found = by_name.find(input.target);
    RAVNEST_CHECK(found != by_name.end());
    const graph::Weight& weight = *found->second;
    const bool is_parameter = weight.kind == graph::InputKind::kParameter;
    weights.push_back({.name = weight.name,
                       .nbytes = graph::nbytes(weight.type, {}).value_or(0),
                       .is_parameter = is_parameter,
                       .is_trainable = is_parameter && weight.type.requires_grad});
  }
}

void ModelFacts::find_uses() {
  std::vector<bool> is_user(graph.values.size(), false);
  for (const graph::Input& input : graph.inputs) {
    if (input.kind == graph::InputKind::kUser) {
      is_user[input.value] = true;
    }
  }
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    for_each_ref(graph.ops[op], [&](ValueId id) {
      if (weight_of[id] != kNone) {
        uses[op].push_back(weight_of[id]);
      }
      if (is_user[costs.storage[id]]) {
        user_inputs[op].push_back(costs.storage[id]);
      }
    });
  }
}

void ModelFacts::find_crossings() {
  std::vector<std::size_t> last_use(graph.values.size(), 0);
  const auto note = [&](ValueId id, std::size_t op) {
    std::size_t& last = last_use[aliasing.same[id]];
    last = std::max(last, op);
  };
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    for_each_ref(graph.ops[op], [&](ValueId id) { note(id, op); });
  }
  for (const graph::Argument& output : graph.outputs) {
    for_each_ref(output, [&](ValueId id) { note(id, graph.ops.size()); });
  }
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const auto definer = aliasing.definer[id];
    const bool crosses = aliasing.same[id] == id && definer && last_use[id] > *definer;
    if (crosses && graph.value(id).kind == graph::ValueKind::kTensor) {
      crossings.push_back({.storage = costs.storage[id],
                           .first = *definer,
                           .last = last_use[id],
                           .nbytes = costs.storage_bytes[id],
                           .has_gradient = costs.needs_grad[id]});
    }
  }
}

}  // namespace ravnest::planner
