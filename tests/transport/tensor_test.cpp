#include "ravnest/transport/tensor.h"

#include <gtest/gtest.h>

#include <limits>

namespace ravnest::transport {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kFloat32 = 7;

TEST(CheckedTensorView, TakesWhatFits) {
  const std::vector<std::byte> bytes(24);
  const Shape shape{2, 3};
  const TensorView view = checked_tensor_view(kFloat32, shape, bytes, {});
  EXPECT_EQ(view.dtype, graph::DType::kFloat32);
  EXPECT_EQ(view.shape.size(), 2U);
  EXPECT_EQ(view.bytes.size(), 24U);
}

TEST(CheckedTensorView, AScalarHasOneValueAndAZeroNone) {
  EXPECT_EQ(checked_tensor_bytes(kFloat32, Shape{}, {}), 4U);
  EXPECT_EQ(checked_tensor_bytes(kFloat32, Shape{5, 0, 7}, {}), 0U);
}

TEST(CheckedTensorView, RefusesTheWrongNumberOfBytes) {
  for (const std::size_t size : {0U, 23U, 25U}) {
    const std::vector<std::byte> bytes(size);
    EXPECT_THROW(checked_tensor_view(kFloat32, Shape{2, 3}, bytes, {}), std::invalid_argument);
  }
}

TEST(CheckedTensorView, RefusesUnknownDtypes) {
  for (const std::int64_t dtype : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{14},
                                   std::int64_t{7} + (std::int64_t{1} << 8),
                                   std::int64_t{7} + (std::int64_t{1} << 32), kHuge}) {
    EXPECT_THROW(checked_tensor_bytes(dtype, Shape{1}, {}), std::invalid_argument) << dtype;
  }
}

TEST(CheckedTensorView, RefusesHostileShapes) {
  for (const Shape& shape :
       {Shape{-1}, Shape{std::numeric_limits<std::int64_t>::min()}, Shape{kHuge}, Shape{kHuge, 2},
        Shape{std::int64_t{1} << 32, std::int64_t{1} << 32}, Shape{std::int64_t{1} << 62},
        Shape{kHuge, kHuge, kHuge}, Shape{0, kHuge, kHuge}, Shape{-1, -4},
        Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    EXPECT_THROW(checked_tensor_bytes(kFloat32, shape, {}), std::invalid_argument);
  }
}

TEST(CheckedTensorView, KeepsToTheLimit) {
  const Limits limits{.tensor_bytes = 16};
  EXPECT_EQ(checked_tensor_bytes(kFloat32, Shape{4}, limits), 16U);
  EXPECT_THROW(checked_tensor_bytes(kFloat32, Shape{5}, limits), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest::transport
