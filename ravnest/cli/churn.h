#pragma once

#include <string>

#include "ravnest/planner/simulate/simulate.h"

namespace ravnest::cli {

// Reads who is away when, separated by commas: "2@60-120" (node 2 from second 60 to 120),
// "2@60" (and never back), "3600/300" (every machine leaves after an hour in the mean and
// is away for five minutes). Throws std::invalid_argument.
planner::Churn parse_churn(const std::string& text);

}  // namespace ravnest::cli
