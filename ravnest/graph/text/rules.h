#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ravnest/graph/program.h"

namespace ravnest::graph {

// What the printer and the parser of the text form leave unsaid, so that both
// fill it in alike.

// "ints", "optional_tensors", …
std::string_view name_of(ListKind kind);
std::optional<ListKind> find_list_kind(std::string_view name);

// "parameter", "buffer", "constant", "input", "literal".
std::string_view name_of(InputKind kind);
std::optional<InputKind> find_input_kind(std::string_view name);

// What a list of these holds when it does not say.
ListKind infer_list_kind(const Graph& graph, std::span<const Argument> items);

// The strides of a tensor that does not say; nothing where the product would not
// fit or would be large itself.
std::optional<std::vector<Expr>> contiguous_strides(std::span<const Expr> sizes);

inline bool requires_grad_by_default(InputKind kind) { return kind == InputKind::kParameter; }

}  // namespace ravnest::graph
