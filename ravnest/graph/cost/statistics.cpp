#include "ravnest/graph/cost/statistics.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "ravnest/graph/cost/batch.h"
#include "ravnest/graph/cost/places.h"
#include "ravnest/graph/shapes.h"

namespace ravnest::graph {

namespace {

constexpr double kLargestShare = 0.2;

std::string parent_of(const std::string& weight) {
  const std::size_t dot = weight.rfind('.');
  return dot == std::string::npos ? std::string() : weight.substr(0, dot);
}

// Weights once per storage, and the parameters among them as places.
void count_weights(const Program& program, Statistics& out, std::vector<Place>& places) {
  std::unordered_set<std::string> seen;
  for (const Weight& weight : program.weights) {
    if (!weight.storage_key.empty() && !seen.insert(weight.storage_key).second) {
      continue;
    }
    const std::int64_t count = numel(weight.type, {}).value_or(0);
    const std::int64_t size = nbytes(weight.type, {}).value_or(0);
    if (weight.kind != InputKind::kParameter) {
      out.buffers = saturating_add(out.buffers, count);
      out.buffer_bytes = saturating_add(out.buffer_bytes, size);
      continue;
    }
    out.parameters = saturating_add(out.parameters, count);
    out.parameter_bytes = saturating_add(out.parameter_bytes, size);
    out.trainable_parameters =
        saturating_add(out.trainable_parameters, weight.type.requires_grad ? count : 0);
    Place place;
    place.path = parent_of(weight.name);
    place.parameters = count;
    place.parameter_bytes = size;
    places.push_back(std::move(place));
  }
}

void count_ops(const Graph& graph, const GraphCosts& costs, Statistics& out,
               std::vector<Place>& places) {
  const OpCost nothing;  // the costs of some ops alone would mislead
  std::map<std::string, std::int64_t> counts;
  std::unordered_set<ValueId> saved;
  for (std::size_t index = 0; index < graph.ops.size(); ++index) {
    const Op& op = graph.ops[index];
    const OpCost& cost = costs.known ? costs.ops[index] : nothing;
    ++counts[op.target];
    out.flops = saturating_add(out.flops, cost.flops);
    out.backward_flops = saturating_add(out.backward_flops, cost.backward_flops);
    Place place;
    place.path = op.module;
    place.ops = 1;
    place.flops = cost.flops;
    place.backward_flops = cost.backward_flops;
    place.activation_bytes = cost.saved_extra_bytes;
    for (const ValueId id : cost.saved) {
      if (saved.insert(id).second) {
        place.activation_bytes = saturating_add(place.activation_bytes, costs.storage_bytes[id]);
      }
    }
    places.push_back(std::move(place));
  }
  for (const auto& [target, count] : counts) {
    out.operators.push_back({target, count});
  }
  std::ranges::stable_sort(out.operators, std::greater{}, &OperatorCount::count);
}

}  // namespace

Statistics statistics(const Program& program, const StatisticsOptions& options) {
  const Graph& graph = program.graph;
  const Batch batch = find_batch(graph);
  const GraphCosts costs = estimate_costs(graph, batch_symbols(graph, batch, options.batch));
  Statistics out;
  out.ops = static_cast<std::int64_t>(graph.ops.size());
  out.captured_batch = batch.captured;
  out.batch = options.batch ? options.batch : batch.captured;
  out.batch_is_dynamic = !batch.symbols.empty();
  out.costs_known = costs.known;
  out.memory = estimate_memory(program, graph, costs, options.optimizer);
  std::vector<Place> places;
  count_weights(program, out, places);
  count_ops(graph, costs, out, places);
  out.places = divide(places, kLargestShare);
  return out;
}

}  // namespace ravnest::graph
