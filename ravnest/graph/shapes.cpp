#include "ravnest/graph/shapes.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace ravnest::graph {

namespace {

bool evaluate_all(const std::vector<Expr>& exprs, const SymbolValues& symbols,
                  std::vector<std::int64_t>& out) {
  out.reserve(exprs.size());
  for (const Expr& expr : exprs) {
    const std::optional<std::int64_t> value = expr.evaluate(symbols);
    if (!value) {
      return false;
    }
    out.push_back(*value);
  }
  return true;
}

Shape evaluate_shape(const TensorType& type, const SymbolValues& symbols) {
  const std::optional<std::int64_t> count = numel(type, symbols);
  const std::optional<std::int64_t> size = nbytes(type, symbols);
  Shape shape;
  if (!type.is_known() || !count || !size || !evaluate_all(type.sizes, symbols, shape.sizes)) {
    return {};
  }
  if (!evaluate_all(type.strides, symbols, shape.strides) ||
      shape.strides.size() != shape.sizes.size()) {
    shape.strides.clear();
  }
  shape.known = true;
  shape.dtype = type.dtype;
  shape.numel = *count;
  shape.nbytes = *size;
  return shape;
}

std::vector<std::int64_t> without_ones(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> out;
  std::ranges::copy_if(sizes, std::back_inserter(out), [](std::int64_t n) { return n != 1; });
  return out;
}

}  // namespace

std::int64_t Shape::size(std::int64_t dim) const {
  const auto count = static_cast<std::int64_t>(sizes.size());
  const std::int64_t index = dim < 0 ? dim + count : dim;
  return index < 0 || index >= count ? 1 : sizes[static_cast<std::size_t>(index)];
}

bool Shape::is_contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t dim = strides.size(); dim-- > 0;) {
    if (sizes[dim] != 1 && strides[dim] != expected) {
      return numel == 0;
    }
    expected = saturating_multiply(expected, sizes[dim]);
  }
  return true;
}

std::vector<Shape> evaluate_shapes(const Graph& graph, const SymbolValues& symbols) {
  std::vector<Shape> shapes;
  shapes.reserve(graph.values.size());
  for (const Value& value : graph.values) {
    shapes.push_back(value.kind == ValueKind::kTensor ? evaluate_shape(value.type, symbols)
                                                      : Shape{});
  }
  return shapes;
}

bool can_merge(const Shape& shape, std::size_t first, std::size_t last) {
  if (shape.strides.empty() || shape.numel == 0) {
    return true;
  }
  std::optional<std::size_t> outer;
  for (std::size_t dim = first; dim < std::min(last, shape.rank()); ++dim) {
    if (shape.sizes[dim] == 1) {
      continue;
    }
    if (outer &&
        shape.strides[*outer] != saturating_multiply(shape.strides[dim], shape.sizes[dim])) {
      return false;
    }
    outer = dim;
  }
  return true;
}

bool can_view(const Shape& shape, std::span<const std::int64_t> sizes) {
  if (shape.strides.empty() || shape.numel == 0 || shape.is_contiguous()) {
    return true;
  }
  const std::vector<std::int64_t> wanted = without_ones(sizes);
  // Walk from the last dimension, taking runs of old and new dimensions with
  // equal products; every run of old dimensions must be mergeable.
  std::size_t old_end = shape.rank();
  std::size_t new_end = wanted.size();
  while (old_end > 0) {
    std::size_t old_begin = old_end - 1;
    std::int64_t have = shape.sizes[old_begin];
    std::int64_t want = 1;
    while (have != want) {
      if (want < have) {
        if (new_end == 0) {
          return false;
        }
        want = saturating_multiply(want, wanted[--new_end]);
      } else {
        if (old_begin == 0) {
          return false;
        }
        have = saturating_multiply(have, shape.sizes[--old_begin]);
      }
    }
    if (!can_merge(shape, old_begin, old_end)) {
      return false;
    }
    old_end = old_begin;
  }
  return new_end == 0;
}

std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

std::int64_t saturating_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max()
                                                : product;
}

std::int64_t saturating_product(std::span<const std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    product = saturating_multiply(product, factor);
  }
  return product;
}

}  // namespace ravnest::graph
