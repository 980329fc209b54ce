#pragma once

#include <vector>

#include "ravnest/graph/cost/statistics.h"

namespace ravnest::graph {

// Joins places into a tree by their paths and divides it: the whole, and every
// part whose share is larger than `largest_share`, is replaced by its children
// and, under its own path, what it does itself. Sets `share`. The heaviest comes
// first; equal ones keep the order they came in.
std::vector<Place> divide(const std::vector<Place>& places, double largest_share);

}  // namespace ravnest::graph
