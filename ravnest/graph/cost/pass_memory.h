#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/graph/cost/cost.h"
#include "ravnest/graph/program.h"

namespace ravnest::graph {

// Follows the memory of one pass, forward and backward, through a range of ops:
// values live until their last use, saved ones until the backward that needs
// them, gradients from the first op that gives them to the one that takes them.
// Weights, their gradients and optimizer state are not counted. Borrows nothing.
class PassMemory {
 public:
  PassMemory(const Graph& graph, const GraphCosts& costs);

  // Bytes at the highest moment of a pass through the ops [first, last), what
  // enters and leaves the range included.
  [[nodiscard]] std::int64_t peak(std::size_t first, std::size_t last) const;

  // By op: bytes at its own highest moment, in a pass through the whole graph, beyond
  // what autograd keeps of the ops up to it and what enters and leaves the graph. With
  // that the peak of any range is about the largest sum of all three, without another walk.
  [[nodiscard]] std::vector<std::int64_t> overheads() const;

 private:
  struct Step {
    std::vector<ValueId> reads;  // storages, weights aside
    std::vector<ValueId> makes;  // storages that are new
    std::vector<ValueId> saved;
    std::vector<ValueId> graded;  // of `reads`: those that need a gradient
    std::int64_t saved_extra = 0;
    std::int64_t temporary = 0;
    std::int64_t weight_gradients = 0;
    bool has_backward = false;
    bool passes_gradient_on = false;  // add: its gradient is its argument's
  };
  struct Walk;

  Step read_step(const Graph& graph, const GraphCosts& costs, std::size_t index,
                 const std::vector<bool>& is_weight) const;

  std::vector<Step> steps_;
  std::vector<std::int64_t> bytes_;    // by storage
  std::vector<std::size_t> last_use_;  // by storage: op, or the number of ops for an output
  std::vector<bool> is_graded_;        // by storage: some value in it needs a gradient
};

}  // namespace ravnest::graph
