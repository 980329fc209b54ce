#pragma once

#include "ravnest/planner/simulate/simulate.h"

namespace ravnest::planner {

// Throws std::invalid_argument, as `simulate` does.
void check_simulation(const Plan& plan, const SimulateOptions& options);

}  // namespace ravnest::planner
