#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/graph/cost/op_view.h"

namespace ravnest::graph {

// What autograd keeps of one op until its backward: arguments and results by
// value, and bytes that no value of the graph names.
struct Saved {
  std::vector<ValueId> values;
  std::int64_t extra_bytes = 0;
};

// `needs_grad` says of every value whether a gradient reaches it, results of the
// op included. An op without a rule keeps everything it reads and gives.
Saved find_saved(const OpView& op, const std::vector<bool>& needs_grad);

}  // namespace ravnest::graph
