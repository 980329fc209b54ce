#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/graph/cost/op_view.h"

namespace ravnest::graph {

struct Flops {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};

// A multiply-add counts as two. Moving bytes counts as none. The backward of
// products is counted per operand that needs a gradient.
Flops count_flops(const OpView& op, const std::vector<bool>& needs_grad);

}  // namespace ravnest::graph
