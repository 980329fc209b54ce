#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ravnest::engine {

enum class Finiteness : std::uint8_t {
  kFinite,
  kInfinite,  // some are infinite, and none is not a number
  kNan,       // some are not a number
};

// The worst of a tensor's numbers, in one pass over its memory. What is undefined or has no
// floating dtype is finite.
Finiteness finiteness_of(const at::Tensor& tensor);
inline bool is_finite(const at::Tensor& tensor) {
  return finiteness_of(tensor) == Finiteness::kFinite;
}

}  // namespace ravnest::engine
