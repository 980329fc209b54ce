#pragma once

#include <optional>
#include <vector>

#include "ravnest/graph/program.h"

namespace ravnest::graph {

// Which values of a graph may share memory, and which ops change it in place.
// Conservative: a reshape that may or may not copy counts as sharing.
struct Aliasing {
  explicit Aliasing(const Graph& graph);

  // By ValueId. `same`: the value this one *is* (an in-place op returns its
  // argument); `root`: the first value of the group that may share its memory.
  std::vector<ValueId> same;
  std::vector<ValueId> root;
  // The op that defines a value; nothing for inputs.
  std::vector<std::optional<std::size_t>> definer;
  // By op: roots of the groups it changes.
  std::vector<std::vector<ValueId>> changed;
};

// The first tensor an op takes: what a view looks at and an in-place op changes.
std::optional<ValueId> first_tensor(const Graph& graph, const Op& op);

// Whether a view-like op always shares memory with its argument, whatever the
// layout: view and transpose do, reshape and contiguous may copy.
bool always_shares(const Op& op);

}  // namespace ravnest::graph
