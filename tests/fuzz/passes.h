#pragma once

#include <cstdint>

#include "ravnest/graph/cost/cost.h"
#include "ravnest/graph/lint.h"
#include "ravnest/graph/mode.h"
#include "ravnest/graph/program.h"
#include "ravnest/graph/slice.h"
#include "ravnest/graph/text/text.h"
#include "tests/fuzz/finding.h"

namespace ravnest::graph {

using ravnest::accepted;
using ravnest::require;

inline void slice_anywhere(const Program& program) {
  const std::size_t ops = program.graph.ops.size();
  if (ops < 2) {
    return;
  }
  const auto check = [&](const std::vector<std::size_t>& cuts) {
    accepted([&] {
      for (const Stage& stage : slice(program, cuts)) {
        require(accepted([&] { lint(stage.program, "stage"); }));
      }
    });
  };
  check({ops / 2});
  check(near_equal_cuts(program, ops < 3 ? 2 : 3));
}

// Runs on a hostile Program that lint lets through what a user would run on it.
inline void run_passes(const Program& program) {
  const Graph eval = graph_for_eval(program);
  computes_same(eval, program.graph);
  const GraphCosts costs = estimate_costs(program.graph, program.graph.hints());
  require(costs.ops.size() == program.graph.ops.size());
  const auto memory = estimate_memory(program, program.graph, costs, OptimizerKind::kAdam);
  static_cast<void>(memory);
  slice_anywhere(program);
  require(!to_text(program).empty());
}

}  // namespace ravnest::graph
