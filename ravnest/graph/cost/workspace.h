#pragma once

#include <cstdint>

#include "ravnest/graph/cost/op_view.h"

namespace ravnest::graph {

// Bytes that the kernels of an op take for themselves, forward or backward, and
// give back: reordered copies, scratch memory. Zero for most.
std::int64_t workspace_bytes(const OpView& op);

}  // namespace ravnest::graph
