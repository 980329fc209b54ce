#include "ravnest/engine/stage/finite.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>

namespace ravnest::engine {

namespace {

// Without its sign a number's bits grow with it: those of an infinity are beyond all that are
// finite, and those of no number beyond that. A loop over integers needs no order of operations,
// so that the compiler makes it one over vectors.
template <typename Bits>
Finiteness worst_of(const void* data, std::int64_t count, Bits infinity) {
  constexpr Bits kWithoutSign = static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 1)));
  const auto* numbers = static_cast<const Bits*>(data);
  Bits largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, static_cast<Bits>(numbers[i] & kWithoutSign));
  }
  return largest < infinity    ? Finiteness::kFinite
         : largest == infinity ? Finiteness::kInfinite
                               : Finiteness::kNan;
}

Finiteness worst_by_torch(const at::Tensor& tensor) {
  return at::isfinite(tensor).all().item<bool>() ? Finiteness::kFinite
         : at::isnan(tensor).any().item<bool>()  ? Finiteness::kNan
                                                 : Finiteness::kInfinite;
}

}  // namespace

Finiteness finiteness_of(const at::Tensor& tensor) {
  if (!tensor.defined() || (!tensor.is_floating_point() && !tensor.is_complex())) {
    return Finiteness::kFinite;
  }
  if (!tensor.is_cpu() || !tensor.is_non_overlapping_and_dense()) {
    return worst_by_torch(tensor.detach());
  }
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return worst_of<std::uint32_t>(data, tensor.numel(), 0x7f800000U);
    case at::kDouble:
      return worst_of<std::uint64_t>(data, tensor.numel(), 0x7ff0000000000000ULL);
    case at::kHalf:
      return worst_of<std::uint16_t>(data, tensor.numel(), 0x7c00);
    case at::kBFloat16:
      return worst_of<std::uint16_t>(data, tensor.numel(), 0x7f80);
    default:
      return worst_by_torch(tensor.detach());
  }
}

}  // namespace ravnest::engine
