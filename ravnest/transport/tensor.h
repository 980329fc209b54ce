#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/graph/dtype.h"
#include "ravnest/transport/limits.h"

namespace ravnest::transport {

// Values in row-major order, little-endian. The bytes are shared, never written.
struct Tensor {
  graph::DType dtype = graph::DType::kUnknown;
  std::vector<std::int64_t> shape;
  Bytes bytes;
};

// A tensor of somebody else's memory. One from outside is made by checked_tensor_view alone.
struct TensorView {
  graph::DType dtype = graph::DType::kUnknown;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// The bytes that a tensor of this dtype (as numbered in graph::DType) and shape has. Throws
// std::invalid_argument: unknown dtype, more than kMaxRank dimensions, a negative one, a product
// that overflows or is over limits.tensor_bytes.
std::size_t checked_tensor_bytes(std::int64_t dtype_code, std::span<const std::int64_t> shape,
                                 const Limits& limits);

// The same, and that exactly so many bytes are there.
TensorView checked_tensor_view(std::int64_t dtype_code, std::span<const std::int64_t> shape,
                               std::span<const std::byte> bytes, const Limits& limits);

// A tensor of our own as a view, checked in the same way.
TensorView checked_tensor_view(const Tensor& tensor, const Limits& limits);

}  // namespace ravnest::transport
