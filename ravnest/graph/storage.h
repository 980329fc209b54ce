#pragma once

#include <optional>

#include "ravnest/graph/op_view.h"

namespace ravnest::graph {

// The argument whose memory the results of an op share: of a view, an in-place
// op, or one that returns its argument unchanged (dropout in eval mode). Where
// shapes are unknown, an op that may be a view counts as one.
std::optional<ValueId> find_aliased(const OpView& op);

}  // namespace ravnest::graph
