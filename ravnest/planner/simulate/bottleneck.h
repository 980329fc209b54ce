#pragma once

#include <string>
#include <vector>

#include "ravnest/planner/simulate/pipeline.h"

namespace ravnest::planner {

// What bounds a cluster, from its times alone, without the reason. A pass cannot come more
// often than its slowest machine and link allow, nor than a round trip divided by the
// passes that may be in flight.
Bottleneck find_bottleneck(const std::vector<StageTimes>& times, const SimulateOptions& options);

// In words, with what the simulation has shown.
std::string explain(const Bottleneck& bottleneck, const Plan& plan, std::size_t cluster,
                    const Simulation& simulation);

// Sentences on memory and averaging.
std::vector<std::string> find_warnings(const Plan& plan, const Simulation& simulation);

}  // namespace ravnest::planner
