#pragma once

#include <vector>

#include "ravnest/graph/program.h"
#include "ravnest/graph/slice.h"

namespace ravnest::graph {

using StageIndex = std::size_t;

// The part of one graph that a stage holds, and where its inputs come from.
struct GraphStage {
  Graph graph;
  std::vector<Source> sources;
};

// Cuts one graph, given the stage of every op; a value's users are never in an
// earlier stage than the op that defines it. See slice.h for what holds.
std::vector<GraphStage> cut_graph(const Graph& graph, std::vector<StageIndex> stage_of_op,
                                  std::size_t stages);

}  // namespace ravnest::graph
