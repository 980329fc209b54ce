#pragma once

#include "ravnest/planner/simulate/simulate.h"

namespace ravnest::planner {

// Adds what averaging costs to the runs of all machines, and its bars to the timeline. A
// ring of n holders makes 2(n − 1) steps in a round, each with an n-th of the bytes and
// at the pace of its slowest link; a machine in several rings takes them in turn. Rounds
// come as often as the slowest cluster makes `reduce_factor` updates, or one after the
// other where a round takes longer.
void add_averaging(const Plan& plan, Simulation& simulation);

}  // namespace ravnest::planner
