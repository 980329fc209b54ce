#include "ravnest/graph/storage.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ravnest::graph {

namespace {

constexpr auto kViews = std::to_array<std::string_view>({
    "_reshape_alias", "_unsafe_view",    "adjoint",       "alias",        "as_strided",
    "atleast_1d",     "atleast_2d",      "atleast_3d",    "broadcast_to", "chunk",
    "detach",         "diagonal",        "expand",        "expand_as",    "hsplit",
    "imag",           "lift_fresh",      "matrix_H",      "mH",           "mT",
    "movedim",        "moveaxis",        "narrow",        "numpy_T",      "permute",
    "positive",       "real",            "resolve_conj",  "resolve_neg",  "select",
    "slice",          "split",           "split_with_sizes", "squeeze",   "swapaxes",
    "swapdims",       "t",               "tensor_split",  "transpose",    "unbind",
    "unflatten",      "unfold",          "unsafe_chunk",  "unsafe_split",
    "unsafe_split_with_sizes",           "unsqueeze",     "view",         "view_as",
    "view_as_complex", "view_as_real",   "vsplit",
});

constexpr auto kReshapes = std::to_array<std::string_view>(
    {"flatten", "ravel", "reshape", "reshape_as"});

constexpr auto kDropouts = std::to_array<std::string_view>(
    {"alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout"});

template <std::size_t count>
bool contains(const std::array<std::string_view, count>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_conversion(std::string_view name) { return name == "to" || name == "type_as"; }

// Whether an op that copies only when it must gives its argument back.
bool returns_argument(const OpView& op, const Shape& argument, const Shape& result) {
  if (contains(kReshapes, op.name())) {
    return can_view(argument, result.sizes);
  }
  if (op.name() == "contiguous") {
    return argument.strides.empty() || argument.strides == result.strides;
  }
  if (is_conversion(op.name())) {
    return argument.dtype == result.dtype && !op.flag("copy", false);
  }
  return contains(kDropouts, op.name()) &&
         (!op.flag("train", true) || op.number("p", 0.5) == 0.0);
}

}  // namespace

std::optional<ValueId> find_aliased(const OpView& op) {
  const std::optional<ValueId> argument = op.find_tensor({"self", "input"});
  if (!argument) {
    return std::nullopt;
  }
  const bool aliases = op.in_place() || contains(kViews, op.name()) ||
                       returns_argument(op, op.shape(*argument), op.result_shape());
  return aliases ? argument : std::nullopt;
}

}  // namespace ravnest::graph
