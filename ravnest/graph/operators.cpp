#include "ravnest/graph/operators.h"

#include <algorithm>
#include <array>

namespace ravnest::graph {

namespace {

constexpr unsigned kAliases = 1;
constexpr unsigned kMutates = 2;
constexpr unsigned kMutatesOther = 4;
constexpr unsigned kRandom = 8;

struct Row {
  std::string_view target;
  unsigned flags;
};

constexpr Row kTensorOperators[] = {
#include "ravnest/graph/operators.inc"
};
static_assert(std::ranges::is_sorted(kTensorOperators, {}, &Row::target));

constexpr std::array<std::string_view, 33> kSizeOperators{
    "_operator.add",
    "_operator.and_",
    "_operator.eq",
    "_operator.floordiv",
    "_operator.ge",
    "_operator.gt",
    "_operator.le",
    "_operator.lshift",
    "_operator.lt",
    "_operator.mod",
    "_operator.mul",
    "_operator.ne",
    "_operator.neg",
    "_operator.or_",
    "_operator.pos",
    "_operator.pow",
    "_operator.rshift",
    "_operator.sub",
    "_operator.truediv",
    "aten.sym_is_contiguous.default",
    "aten.sym_numel.default",
    "aten.sym_size.int",
    "aten.sym_storage_offset.default",
    "aten.sym_stride.int",
    "math.trunc",
    "torch._sym_sqrt",
    "torch.sym_float",
    "torch.sym_int",
    "torch.sym_ite",
    "torch.sym_max",
    "torch.sym_min",
    "torch.sym_not",
    "torch.sym_sqrt",
};
static_assert(std::ranges::is_sorted(kSizeOperators));

}  // namespace

std::optional<OperatorTraits> find_operator(std::string_view target) {
  if (std::ranges::binary_search(kSizeOperators, target)) {
    return OperatorTraits{.is_size = true};
  }
  const auto* found = std::ranges::lower_bound(kTensorOperators, target, {}, &Row::target);
  if (found == std::end(kTensorOperators) || found->target != target) {
    return std::nullopt;
  }
  return OperatorTraits{.aliases = (found->flags & kAliases) != 0,
                        .mutates = (found->flags & kMutates) != 0,
                        .mutates_other = (found->flags & kMutatesOther) != 0,
                        .random = (found->flags & kRandom) != 0};
}

}  // namespace ravnest::graph
