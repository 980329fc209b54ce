#include "ravnest/graph/cost/statistics.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/graph/cost/places.h"
#include "ravnest/graph/shapes.h"

namespace ravnest::graph {

namespace {

constexpr double kLargestShare = 0.2;

struct Batch {
  std::set<std::string> symbols;         // dimension 0 of the user's inputs
  std::optional<std::int64_t> captured;  // in the example
};

Batch find_batch(const Graph& graph) {
  Batch batch;
  for (const Input* input : graph.user_inputs()) {
    if (input->kind != InputKind::kUser) {
      continue;
    }
    const TensorType& type = graph.value(input->value).type;
    if (!type.is_known() || type.sizes.empty()) {
      continue;
    }
    if (const std::string* symbol = type.sizes[0].find_symbol()) {
      batch.symbols.insert(*symbol);
    }
    if (!batch.captured) {
      batch.captured = type.sizes[0].evaluate(graph.hints());
    }
  }
  return batch;
}

void check_batch(const Graph& graph, const Batch& batch, std::int64_t wanted) {
  if (wanted < 1) {
    throw_invalid("[statistics] expected a batch of 1 or more, got ", wanted, ".");
  }
  if (batch.symbols.empty()) {
    if (batch.captured && *batch.captured == wanted) {
      return;
    }
    if (!batch.captured) {
      throw_invalid("[statistics] expected a model whose shapes are known, got batch ", wanted,
                    " for one that was captured without example inputs. Capture it with some.");
    }
    throw_invalid("[statistics] expected batch ", *batch.captured,
                  ", which the model was captured with and is fixed to, got ", wanted, ".");
  }
  for (const std::string& name : batch.symbols) {
    const auto symbol = graph.symbols.find(name);
    if (symbol != graph.symbols.end() && symbol->second.max && wanted > *symbol->second.max) {
      throw_invalid("[statistics] expected a batch of ", *symbol->second.max, " or less, got ",
                    wanted, ".");
    }
  }
}

SymbolValues symbol_values(const Graph& graph, const Batch& batch,
                           std::optional<std::int64_t> wanted) {
  SymbolValues symbols = graph.hints();
  if (wanted) {
    check_batch(graph, batch, *wanted);
    for (const std::string& name : batch.symbols) {
      symbols[name] = *wanted;
    }
  }
  return symbols;
}

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
  const GraphCosts costs = estimate_costs(graph, symbol_values(graph, batch, options.batch));
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
