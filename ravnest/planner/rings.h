#pragma once

#include <vector>

#include "ravnest/planner/model_costs.h"
#include "ravnest/planner/plan.h"

namespace ravnest::planner {

// Divides the parameters at the cut points of all clusters together. Every range has
// one holder in each cluster, whatever their lengths; the ranges are in the order of use.
std::vector<Ring> form_rings(const ModelCosts& costs, const std::vector<Cluster>& clusters);

}  // namespace ravnest::planner
