#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ravnest/graph/aliasing.h"
#include "ravnest/graph/cost/cost.h"
#include "ravnest/graph/program.h"

namespace ravnest::planner {

// What is derived from a training graph once, to be summed over its parts. Borrows the
// graph.
struct ModelFacts {
  ModelFacts(const graph::Program& program, const graph::SymbolValues& symbols);

  struct Weight {
    std::string name;
    std::int64_t nbytes = 0;
    bool is_parameter = false;
    bool is_trainable = false;
  };

  // A value that has to cross every cut in (first, last].
  struct Crossing {
    graph::ValueId storage = 0;
    std::size_t first = 0;  // the op that makes it
    std::size_t last = 0;   // the op that uses it last; past the end for the model's outputs
    std::int64_t nbytes = 0;
    bool has_gradient = false;
  };

  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  const graph::Graph& graph;
  graph::GraphCosts costs;
  graph::Aliasing aliasing;
  std::vector<Weight> weights;                           // tied ones once
  std::vector<std::size_t> weight_of;                    // by value: place in `weights`
  std::vector<std::vector<std::size_t>> uses;            // by op: weights
  std::vector<std::vector<graph::ValueId>> user_inputs;  // by op: storages
  std::vector<std::int64_t> overheads;                   // by op, see PassMemory
  std::vector<Crossing> crossings;

 private:
  void find_weights(const graph::Program& program);
  void find_uses();
  void find_crossings();
};

}  // namespace ravnest::planner
