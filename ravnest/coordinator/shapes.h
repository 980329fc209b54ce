#pragma once

#include <cstddef>
#include <vector>

#include "ravnest/planner/plan.h"

namespace ravnest::coordinator {

// The ways that a plan cuts the model.
struct Shapes {
  planner::Plan plan;                   // a cluster for each of them, and the rings among these
  std::vector<std::size_t> by_cluster;  // of the whole plan: its shape
};

// Clusters that are cut alike are one shape. So are those that would be hardly slower if they were:
// every shape is in every node's files, and machines are never quite the same.
Shapes find_shapes(const planner::Plan& plan);

}  // namespace ravnest::coordinator
