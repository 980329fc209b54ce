#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ravnest/graph/program.h"

namespace ravnest::graph {

// The shape of one value with the symbols filled in. `known` is false where the
// capture did not say, and then everything else is empty or zero.
struct Shape {
  bool known = false;
  DType dtype = DType::kUnknown;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t numel = 0;
  std::int64_t nbytes = 0;

  std::size_t rank() const { return sizes.size(); }
  // Size of a dimension, counted from the end when negative; 1 where there is none.
  std::int64_t size(std::int64_t dim) const;
  bool is_contiguous() const;
};

// The shapes of all values of a graph, by ValueId.
std::vector<Shape> evaluate_shapes(const Graph& graph, const SymbolValues& symbols);

// Whether the dimensions [first, last) can be seen as one without a copy.
bool can_merge(const Shape& shape, std::size_t first, std::size_t last);
// Whether a tensor of this shape can be seen with other sizes without a copy.
bool can_view(const Shape& shape, std::span<const std::int64_t> sizes);

// Arithmetic on sizes from outside: stops at the largest number, never wraps.
std::int64_t saturating_add(std::int64_t a, std::int64_t b);
std::int64_t saturating_multiply(std::int64_t a, std::int64_t b);
std::int64_t saturating_product(std::span<const std::int64_t> factors);

}  // namespace ravnest::graph
