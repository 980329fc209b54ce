#pragma once

#include <string>

#include "ravnest/planner/plan.h"

namespace ravnest::planner {

// The plan as an SVG picture that stands alone (no scripts, no links, its own background):
// a row for each cluster, a block for each stage. A block's filled part is the memory that
// the stage needs and its outline the machine's RAM, all on one scale; arrows are what a
// pass sends over a link; the bands below have a colour for each ring, so that the same
// range of parameters is found in every cluster. What bounds a cluster is marked. Of more
// than `kDrawnClusters` clusters or `kDrawnStages` stages in one the rest is counted.
inline constexpr std::size_t kDrawnClusters = 12;
inline constexpr std::size_t kDrawnStages = 16;

std::string plan_svg(const Plan& plan);

}  // namespace ravnest::planner
