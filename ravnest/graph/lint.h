#pragma once

#include <string>

#include "ravnest/graph/program.h"

namespace ravnest::graph {

// Throws std::invalid_argument naming `label`, the place and the problem unless
// the Program is well formed: every value defined once and before its uses,
// names unique, kinds of arguments right, weights there, and every operator on
// the allow-list of pure tensor operators. What passes is safe to interpret.
void lint(const Program& program, const std::string& label);

}  // namespace ravnest::graph
