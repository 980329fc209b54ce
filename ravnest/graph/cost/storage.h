#pragma once

#include <optional>

#include "ravnest/graph/cost/op_view.h"

namespace ravnest::graph {

// The argument whose memory a result of an op shares: of a view, an in-place op,
// or one that returns its argument unchanged (dropout in eval mode). The n-th
// result of broadcast_tensors shares that of the n-th tensor. Where shapes are
// unknown, an op that may be a view counts as one.
std::optional<ValueId> find_aliased(const OpView& op, std::size_t result = 0);

}  // namespace ravnest::graph
