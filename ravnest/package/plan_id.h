#pragma once

#include <string>

#include "ravnest/planner/plan.h"

namespace ravnest::package {

// 16 hexadecimal digits that differ where the plan, the graph or a weight does, so that
// nodes of two plans notice each other. Against accidents, not against attackers.
std::string plan_id(const graph::Program& program, const planner::Plan& plan);

}  // namespace ravnest::package
