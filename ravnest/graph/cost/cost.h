#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ravnest/graph/program.h"

namespace ravnest::graph {

// What training a graph costs, from shapes and dtypes alone: nothing is run.
// The rules follow what PyTorch's autograd keeps on a CPU, so that an estimate
// can be held against a measured step.

// The cost of one op. All zero where the shapes are not known.
struct OpCost {
  std::int64_t flops = 0;           // a multiply-add counts as two
  std::int64_t backward_flops = 0;  // 0 where no gradient passes
  // The storages autograd keeps for the backward, each by the value that owns
  // it (`GraphCosts::storage`), without weights: an op that keeps a view keeps
  // its base. Two ops may keep the same one.
  std::vector<ValueId> saved;
  std::int64_t saved_extra_bytes = 0;  // kept, but no value: masks, indices, statistics, copies
  std::int64_t result_bytes = 0;       // new memory; 0 for a view or an in-place op
  // What its kernels take for themselves and give back.
  std::int64_t temporary_bytes = 0;
};

// The costs of all ops of a graph, and what they were derived from, by ValueId.
struct GraphCosts {
  std::vector<OpCost> ops;
  std::vector<ValueId> storage;             // the value whose bytes this one shares; often itself
  std::vector<std::int64_t> storage_bytes;  // bytes of the value by itself
  std::vector<bool> needs_grad;
  bool known = true;  // false: some shapes are unknown, and costs are too low
};

// The graph must be well formed (see lint.h). Symbols that are missing make the
// shapes that use them unknown.
[[nodiscard]] GraphCosts estimate_costs(const Graph& graph, const SymbolValues& symbols);

enum class OptimizerKind : std::uint8_t { kSgd, kMomentum, kAdam };

std::string_view name_of(OptimizerKind optimizer);
std::optional<OptimizerKind> find_optimizer(std::string_view name);
// Bytes of optimizer state for one byte of parameter.
std::int64_t state_per_parameter_byte(OptimizerKind optimizer);

// Bytes that training takes, one pass in flight and one version of the weights.
// Where costs are not known, only what belongs to the weights is counted.
struct MemoryEstimate {
  std::int64_t weights = 0;  // parameters, each storage once
  std::int64_t buffers = 0;  // buffers and constants
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t activations = 0;     // what autograd keeps at the end of the forward
  std::int64_t inputs_outputs = 0;  // those that are not among the activations
  // What the highest moment of the pass takes beyond that: values on their way,
  // gradients of activations, scratch memory (see PassMemory).
  std::int64_t largest_temporary = 0;
  std::int64_t total = 0;
};

// Bytes that autograd keeps after the ops [first, last) have run, each storage once.
[[nodiscard]] std::int64_t activation_bytes(const GraphCosts& costs, std::size_t first,
                                            std::size_t last);

[[nodiscard]] MemoryEstimate estimate_memory(const Program& program, const Graph& graph,
                                             const GraphCosts& costs, OptimizerKind optimizer);

}  // namespace ravnest::graph
