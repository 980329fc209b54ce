#pragma once

#include <string>

#include "ravnest/base/table.h"
#include "ravnest/planner/plan.h"
#include "ravnest/planner/simulate/simulate.h"

namespace ravnest::planner {

// The plan for people: who holds what, how full each machine is, what crosses the links,
// what the clusters wait for. Large plans are shortened.
std::string plan_table(const Plan& plan, const Style& style);

// What two simulations of one plan, asynchronous and synchronous, predict; the details
// are of the first.
std::string simulation_table(const Plan& plan, const Simulation& chosen, const Simulation& other,
                             const Style& style);

}  // namespace ravnest::planner
