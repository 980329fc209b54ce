#pragma once

#include <vector>

#include "ravnest/planner/grouping/grouping.h"
#include "ravnest/planner/pool.h"

namespace ravnest::planner {

// Machines of the pool as points to be grouped, in the order of `members`. Speed counts
// where some machine gives one.
std::vector<GroupingProblem::Point> make_points(const std::vector<Machine>& pool,
                                                const std::vector<double>& gflops,
                                                const std::vector<std::size_t>& members);

}  // namespace ravnest::planner
