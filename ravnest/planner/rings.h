#pragma once

#include <vector>

#include "ravnest/planner/model_costs.h"
#include "ravnest/planner/plan.h"

namespace ravnest::planner {

// Divides the parameters at the cut points of all clusters together. Every range has
// one holder in each cluster, whatever their lengths; the ranges are in the order of use. A buffer
// that training changes goes with the parameters of its holders, and has a range of its own where
// they have none.
std::vector<Ring> form_rings(const graph::Graph& graph, const ModelCosts& costs,
                             const std::vector<Cluster>& clusters);

}  // namespace ravnest::planner
