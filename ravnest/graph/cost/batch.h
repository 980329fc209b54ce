#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "ravnest/graph/program.h"

namespace ravnest::graph {

// What a graph says of its batch: dimension 0 of the user's inputs.
struct Batch {
  std::set<std::string> symbols;         // none: it is fixed
  std::optional<std::int64_t> captured;  // in the example
};

Batch find_batch(const Graph& graph);

// The symbols of a graph at a batch, or as in the example. Throws
// std::invalid_argument for a batch that the model does not take.
SymbolValues batch_symbols(const Graph& graph, const Batch& batch,
                           std::optional<std::int64_t> wanted);

}  // namespace ravnest::graph
