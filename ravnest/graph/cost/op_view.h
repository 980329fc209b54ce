#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ravnest/graph/program.h"
#include "ravnest/graph/shapes.h"

namespace ravnest::graph {

// An op as the cost rules read it: its arguments by name with their defaults,
// its shapes filled in. Borrows everything; lives for one rule.
class OpView {
 public:
  OpView(const Graph& graph, const Op& op, std::span<const Shape> shapes,
         const SymbolValues& symbols);

  const Op& op() const { return op_; }
  // "relu" of "aten.relu_.default"; the whole target when it is not an ATen call.
  std::string_view name() const { return name_; }
  std::string_view overload() const { return overload_; }
  bool in_place() const { return in_place_; }

  std::optional<ValueId> find_tensor(std::string_view argument) const;
  // The first of these arguments that is a tensor.
  std::optional<ValueId> find_tensor(std::initializer_list<std::string_view> arguments) const;
  std::vector<ValueId> tensors(std::string_view argument) const;
  // Every tensor that goes in, in order.
  std::vector<ValueId> tensors() const;
  std::optional<ValueId> find_result(std::size_t index = 0) const;
  std::vector<ValueId> results() const;

  std::int64_t integer(std::string_view argument, std::int64_t otherwise) const;
  std::vector<std::int64_t> integers(std::string_view argument) const;
  double number(std::string_view argument, double otherwise) const;
  bool flag(std::string_view argument, bool otherwise) const;
  std::string_view text(std::string_view argument) const;

  const Shape& shape(ValueId id) const { return shapes_[id]; }
  // The shape of an argument or of a result; an unknown one if it is not there.
  const Shape& shape(std::string_view argument) const;
  const Shape& result_shape(std::size_t index = 0) const;
  // Whether the shapes of all tensors in and out are known.
  bool is_known() const;

 private:
  std::optional<std::int64_t> find_integer(const Argument& argument) const;

  const Graph& graph_;
  const Op& op_;
  std::span<const Shape> shapes_;
  const SymbolValues& symbols_;
  std::string_view name_;
  std::string_view overload_;
  bool in_place_ = false;
};

}  // namespace ravnest::graph
