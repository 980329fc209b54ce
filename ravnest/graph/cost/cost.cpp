#include "ravnest/graph/cost/cost.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <unordered_set>

#include "ravnest/graph/cost/flops.h"
#include "ravnest/graph/cost/op_view.h"
#include "ravnest/graph/cost/pass_memory.h"
#include "ravnest/graph/cost/saved.h"
#include "ravnest/graph/cost/storage.h"
#include "ravnest/graph/cost/workspace.h"

namespace ravnest::graph {

namespace {

// Ops that use a tensor for its shape alone, or cut the gradient.
bool stops_gradient(std::string_view name) {
  return name == "detach" || name == "bernoulli" || name == "multinomial" ||
         name.ends_with("_like") || name.starts_with("new_");
}

// Walks the ops in order of execution, carrying what is known of the values.
class Estimator {
 public:
  Estimator(const Graph& graph, const SymbolValues& symbols)
      : graph_(graph),
        symbols_(symbols),
        shapes_(evaluate_shapes(graph, symbols)),
        is_weight_(graph.values.size()),
        mutated_(graph.values.size()) {
    costs_.needs_grad.resize(graph.values.size());
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      costs_.storage.push_back(id);
      costs_.storage_bytes.push_back(shapes_[id].nbytes);
    }
    for (const Input& input : graph.inputs) {
      read_input(input);
    }
  }

  GraphCosts run() && {
    costs_.ops.reserve(graph_.ops.size());
    for (const Op& op : graph_.ops) {
      const OpView view(graph_, op, shapes_, symbols_);
      trace(view);
      costs_.ops.push_back(estimate(view));
    }
    return std::move(costs_);
  }

 private:
  void read_input(const Input& input) {
    if (input.kind == InputKind::kLiteral) {
      return;
    }
    is_weight_[input.value] = input.is_weight();
    costs_.needs_grad[input.value] =
        input.kind == InputKind::kParameter && graph_.value(input.value).type.requires_grad;
  }

  bool needs_grad(ValueId id) const {
    return costs_.needs_grad[id] || mutated_[costs_.storage[id]];
  }

  bool can_need_grad(ValueId id) const {
    const DType dtype = graph_.value(id).type.dtype;
    return dtype == DType::kUnknown || is_floating(dtype) || dtype == DType::kComplex32 ||
           dtype == DType::kComplex64 || dtype == DType::kComplex128;
  }

  // Follows storage and gradients through the op.
  void trace(const OpView& op) {
    bool wants = false;
    for (const ValueId id : op.tensors()) {
      costs_.needs_grad[id] = needs_grad(id);
      wants = wants || costs_.needs_grad[id];
    }
    wants = wants && !stops_gradient(op.name());
    const std::vector<ValueId> results = op.results();
    for (std::size_t index = 0; index < results.size(); ++index) {
      const ValueId id = results[index];
      const std::optional<ValueId> aliased = find_aliased(op, index);
      if (aliased) {
        costs_.storage[id] = costs_.storage[*aliased];
      }
      const bool is_view = aliased && !op.in_place();
      costs_.needs_grad[id] =
          wants && can_need_grad(id) && (!is_view || costs_.needs_grad[*aliased]);
      // What an in-place op wrote is seen through every view of that storage.
      if (op.in_place() && costs_.needs_grad[id]) {
        mutated_[costs_.storage[id]] = true;
      }
    }
  }

  OpCost estimate(const OpView& op) {
    OpCost cost;
    if (!op.is_known()) {
      costs_.known = false;
      return cost;
    }
    const Flops flops = count_flops(op, costs_.needs_grad);
    cost.flops = flops.forward;
    cost.backward_flops = flops.backward;
    const Saved saved = find_saved(op, costs_.needs_grad);
    cost.saved_extra_bytes = saved.extra_bytes;
    for (const ValueId id : saved.values) {
      add_saved(cost, costs_.storage[id]);
    }
    for (const ValueId id : op.results()) {
      const bool is_new = costs_.storage[id] == id;
      cost.result_bytes = saturating_add(cost.result_bytes, is_new ? shapes_[id].nbytes : 0);
    }
    cost.temporary_bytes = workspace_bytes(op);
    return cost;
  }

  void add_saved(OpCost& cost, ValueId storage) const {
    if (!is_weight_[storage] && std::ranges::find(cost.saved, storage) == cost.saved.end()) {
      cost.saved.push_back(storage);
    }
  }

  const Graph& graph_;
  const SymbolValues& symbols_;
  std::vector<Shape> shapes_;
  std::vector<bool> is_weight_;
  std::vector<bool> mutated_;  // by storage: holds something that needs a gradient
  GraphCosts costs_;
};

struct KindName {
  OptimizerKind kind;
  std::string_view name;
  std::int64_t state;
};

constexpr auto kOptimizers = std::to_array<KindName>({
    {OptimizerKind::kSgd, "sgd", 0},
    {OptimizerKind::kMomentum, "momentum", 1},
    {OptimizerKind::kAdam, "adam", 2},
});

std::int64_t weight_bytes(const Weight& weight) { return nbytes(weight.type, {}).value_or(0); }

void add_weights(const Program& program, MemoryEstimate& memory) {
  std::unordered_set<std::string> seen;
  for (const Weight& weight : program.weights) {
    if (!weight.storage_key.empty() && !seen.insert(weight.storage_key).second) {
      continue;
    }
    const bool is_parameter = weight.kind == InputKind::kParameter;
    std::int64_t& place = is_parameter ? memory.weights : memory.buffers;
    place = saturating_add(place, weight_bytes(weight));
    if (is_parameter && weight.type.requires_grad) {
      memory.gradients = saturating_add(memory.gradients, weight_bytes(weight));
    }
  }
}

// User inputs and graph outputs whose storage is not in `counted`.
std::int64_t uncounted_ends(const Graph& graph, const GraphCosts& costs,
                            std::unordered_set<ValueId> counted) {
  std::int64_t total = 0;
  const auto add = [&](ValueId id) {
    if (counted.insert(costs.storage[id]).second) {
      total = saturating_add(total, costs.storage_bytes[costs.storage[id]]);
    }
  };
  for (const Input& input : graph.inputs) {
    if (input.is_weight()) {
      counted.insert(input.value);
    } else if (input.kind == InputKind::kUser) {
      add(input.value);
    }
  }
  for (const Argument& output : graph.outputs) {
    for_each_ref(output, add);
  }
  return total;
}

}  // namespace

GraphCosts estimate_costs(const Graph& graph, const SymbolValues& symbols) {
  return Estimator(graph, symbols).run();
}

std::string_view name_of(OptimizerKind optimizer) {
  return std::ranges::find(kOptimizers, optimizer, &KindName::kind)->name;
}

std::optional<OptimizerKind> find_optimizer(std::string_view name) {
  const auto found = std::ranges::find(kOptimizers, name, &KindName::name);
  return found == kOptimizers.end() ? std::nullopt : std::optional(found->kind);
}

std::int64_t state_per_parameter_byte(OptimizerKind optimizer) {
  return std::ranges::find(kOptimizers, optimizer, &KindName::kind)->state;
}

std::int64_t activation_bytes(const GraphCosts& costs, std::size_t first, std::size_t last) {
  std::unordered_set<ValueId> seen;
  std::int64_t total = 0;
  for (std::size_t index = first; index < last; ++index) {
    total = saturating_add(total, costs.ops[index].saved_extra_bytes);
    for (const ValueId id : costs.ops[index].saved) {
      total = saturating_add(total, seen.insert(id).second ? costs.storage_bytes[id] : 0);
    }
  }
  return total;
}

MemoryEstimate estimate_memory(const Program& program, const Graph& graph, const GraphCosts& costs,
                               OptimizerKind optimizer) {
  MemoryEstimate memory;
  add_weights(program, memory);
  memory.optimizer = saturating_multiply(memory.gradients, state_per_parameter_byte(optimizer));
  memory.activations = costs.known ? activation_bytes(costs, 0, costs.ops.size()) : 0;
  std::unordered_set<ValueId> saved;
  for (const OpCost& cost : costs.ops) {
    saved.insert(cost.saved.begin(), cost.saved.end());
  }
  memory.inputs_outputs = costs.known ? uncounted_ends(graph, costs, std::move(saved)) : 0;
  const std::int64_t peak = costs.known ? PassMemory(graph, costs).peak(0, graph.ops.size()) : 0;
  memory.largest_temporary =
      std::max<std::int64_t>(peak - saturating_add(memory.activations, memory.inputs_outputs), 0);
  for (const std::int64_t part :
       {memory.weights, memory.buffers, memory.gradients, memory.optimizer, memory.activations,
        memory.inputs_outputs, memory.largest_temporary}) {
    memory.total = saturating_add(memory.total, part);
  }
  return memory;
}

}  // namespace ravnest::graph
