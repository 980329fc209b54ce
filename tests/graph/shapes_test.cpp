#include "ravnest/graph/shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace ravnest::graph {
namespace {

TEST(Shapes, ArithmeticStopsAtTheLargestNumber) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(saturating_add(kMost, 1), kMost);
  EXPECT_EQ(saturating_multiply(kMost, 2), kMost);
  EXPECT_EQ(saturating_product(std::vector<std::int64_t>{2, 3, 4}), 24);
}

// Whether offsets of elements in row-major order are those of a strided tensor.
bool is_strided(const std::vector<std::int64_t>& offsets, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t step = 1;
  for (std::size_t dim = sizes.size(); dim-- > 0; step *= sizes[dim]) {
    strides[dim] = sizes[dim] > 1 ? offsets[static_cast<std::size_t>(step)] - offsets[0] : 0;
  }
  for (std::size_t at = 0; at < offsets.size(); ++at) {
    auto rest = static_cast<std::int64_t>(at);
    std::int64_t offset = offsets[0];
    for (std::size_t dim = sizes.size(); dim-- > 0; rest /= sizes[dim]) {
      offset += rest % sizes[dim] * strides[dim];
    }
    if (offset != offsets[at]) {
      return false;
    }
  }
  return true;
}

std::vector<std::int64_t> offsets_of(const Shape& shape) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t at = 0; at < shape.numel; ++at) {
    std::int64_t rest = at;
    std::int64_t offset = 0;
    for (std::size_t dim = shape.rank(); dim-- > 0; rest /= shape.sizes[dim]) {
      offset += rest % shape.sizes[dim] * shape.strides[dim];
    }
    offsets.push_back(offset);
  }
  return offsets;
}

std::vector<std::int64_t> random_factors(std::int64_t product, std::mt19937& random) {
  std::vector<std::int64_t> sizes;
  while (product > 1 || random() % 3 == 0) {
    std::int64_t factor = 1 + static_cast<std::int64_t>(random()) % product;
    factor = product % factor == 0 ? factor : product;
    sizes.push_back(factor);
    product /= factor;
  }
  std::shuffle(sizes.begin(), sizes.end(), random);
  return sizes;
}

TEST(Shapes, ViewsExactlyWhereStridesAllowIt) {
  std::mt19937 random(1);
  int views = 0;
  int copies = 0;
  for (int round = 0; round < 10000; ++round) {
    Shape shape;
    shape.known = true;
    shape.sizes = random_factors(12 * (1 + static_cast<std::int64_t>(random() % 6)), random);
    shape.numel = saturating_product(shape.sizes);
    std::vector<std::size_t> order(shape.rank());
    for (std::size_t dim = 0; dim < order.size(); ++dim) {
      order[dim] = order.size() - 1 - dim;
    }
    if (random() % 2 == 0) {
      std::shuffle(order.begin(), order.end(), random);
    }
    shape.strides.resize(shape.rank());
    std::int64_t stride = 1 + static_cast<std::int64_t>(random() % 2);
    for (const std::size_t dim : order) {
      shape.strides[dim] = stride;
      stride *= shape.sizes[dim] + static_cast<std::int64_t>(random() % 5 == 0);
    }
    const std::vector<std::int64_t> wanted = random_factors(shape.numel, random);
    const bool expected = is_strided(offsets_of(shape), wanted);
    ASSERT_EQ(can_view(shape, wanted), expected) << "round " << round;
    (expected ? views : copies) += 1;
  }
  EXPECT_GT(views, 500);
  EXPECT_GT(copies, 500);
}

}  // namespace
}  // namespace ravnest::graph
