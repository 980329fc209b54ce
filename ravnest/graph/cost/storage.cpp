#include "ravnest/graph/cost/storage.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ravnest/graph/aliasing.h"
#include "ravnest/graph/operators.h"

namespace ravnest::graph {

namespace {

constexpr auto kReshapes =
    std::to_array<std::string_view>({"flatten", "ravel", "reshape", "reshape_as"});

// Whether an op that copies only where it must gives its argument back.
bool returns_argument(const OpView& op, const Shape& argument, const Shape& result) {
  const std::string_view name = op.name();
  if (std::ranges::find(kReshapes, name) != kReshapes.end()) {
    return can_view(argument, result.sizes);
  }
  if (name == "contiguous") {
    return argument.strides.empty() || argument.strides == result.strides;
  }
  if (name == "to" || name == "type_as") {
    return argument.dtype == result.dtype && !op.flag("copy", false);
  }
  const bool drops = name.ends_with("dropout");
  return !drops || !op.flag("train", true) || op.number("p", 0.5) == 0.0;
}

}  // namespace

std::optional<ValueId> find_aliased(const OpView& op, std::size_t result) {
  const OperatorTraits traits = find_operator(op.op().target).value_or(OperatorTraits{});
  const std::vector<ValueId> arguments = op.tensors();
  if (arguments.empty() || (!traits.mutates && !traits.aliases)) {
    return std::nullopt;
  }
  const bool is_paired = !traits.mutates && arguments.size() == op.results().size();
  const ValueId argument = arguments[is_paired ? result : 0];
  const bool shares = traits.mutates || always_shares(op.op()) ||
                      returns_argument(op, op.shape(argument), op.result_shape());
  return shares ? std::optional(argument) : std::nullopt;
}

}  // namespace ravnest::graph
