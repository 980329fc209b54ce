#pragma once

#include <vector>

#include "ravnest/graph/program.h"

namespace ravnest::engine {

// The graph without the ops that have no effect (`has_effect`, per op) and whose results nobody
// uses, and without the values of those ops and the constants only they used. Values get unique
// names, from the ones they have or from the weights they are.
graph::Graph compact(graph::Graph graph, const std::vector<bool>& has_effect);

}  // namespace ravnest::engine
