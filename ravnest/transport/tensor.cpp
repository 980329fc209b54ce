#include "ravnest/transport/tensor.h"

#include "ravnest/base/error.h"

namespace ravnest::transport {

std::size_t checked_tensor_bytes(std::int64_t dtype_code, std::span<const std::int64_t> shape,
                                 const Limits& limits) {
  const auto dtype = graph::find_dtype(dtype_code);
  if (!dtype) {
    throw_invalid("[transport] expected a known dtype, got number ", dtype_code, ".");
  }
  if (shape.size() > kMaxRank) {
    throw_invalid("[transport] expected a tensor of at most ", kMaxRank, " dimensions, got ",
                  shape.size(), ".");
  }
  std::size_t nbytes = graph::element_size(*dtype);
  bool is_empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) {
      throw_invalid("[transport] expected sizes of zero or more, got ", size, ".");
    }
    is_empty = is_empty || size == 0;
    // Also where another dimension is zero: no size is ever believed beyond the limit.
    if (size > 0 && __builtin_mul_overflow(nbytes, static_cast<std::size_t>(size), &nbytes)) {
      throw_invalid("[transport] expected a tensor of at most ", limits.tensor_bytes,
                    " bytes, got a shape that overflows.");
    }
  }
  if (nbytes > limits.tensor_bytes) {
    throw_invalid("[transport] expected a tensor of at most ", limits.tensor_bytes, " bytes, got ",
                  nbytes, ".");
  }
  return is_empty ? 0 : nbytes;
}

TensorView checked_tensor_view(std::int64_t dtype_code, std::span<const std::int64_t> shape,
                               std::span<const std::byte> bytes, const Limits& limits) {
  const std::size_t expected = checked_tensor_bytes(dtype_code, shape, limits);
  if (bytes.size() != expected) {
    throw_invalid("[transport] expected ", expected,
                  " bytes for the tensor's shape and dtype, got ", bytes.size(), ".");
  }
  return {.dtype = static_cast<graph::DType>(dtype_code), .shape = shape, .bytes = bytes};
}

TensorView checked_tensor_view(const Tensor& tensor, const Limits& limits) {
  return checked_tensor_view(static_cast<std::int64_t>(tensor.dtype), tensor.shape,
                             tensor.bytes.view(), limits);
}

}  // namespace ravnest::transport
