#include "ravnest/engine/convert.h"

#include <algorithm>
#include <array>

#include "ravnest/base/error.h"

namespace ravnest::engine {

namespace {

using graph::DType;

constexpr std::array kDTypes{
    std::pair{DType::kUInt8, c10::ScalarType::Byte},
    std::pair{DType::kInt8, c10::ScalarType::Char},
    std::pair{DType::kInt16, c10::ScalarType::Short},
    std::pair{DType::kInt32, c10::ScalarType::Int},
    std::pair{DType::kInt64, c10::ScalarType::Long},
    std::pair{DType::kFloat16, c10::ScalarType::Half},
    std::pair{DType::kFloat32, c10::ScalarType::Float},
    std::pair{DType::kFloat64, c10::ScalarType::Double},
    std::pair{DType::kComplex32, c10::ScalarType::ComplexHalf},
    std::pair{DType::kComplex64, c10::ScalarType::ComplexFloat},
    std::pair{DType::kComplex128, c10::ScalarType::ComplexDouble},
    std::pair{DType::kBool, c10::ScalarType::Bool},
    std::pair{DType::kBFloat16, c10::ScalarType::BFloat16},
    std::pair{DType::kUInt16, c10::ScalarType::UInt16},
};

}  // namespace

c10::ScalarType to_torch(DType dtype) {
  const auto* found = std::ranges::find(kDTypes, dtype, [](const auto& row) { return row.first; });
  RAVNEST_CHECK(found != kDTypes.end());
  return found->second;
}

DType from_torch(c10::ScalarType dtype) {
  const auto* found = std::ranges::find(kDTypes, dtype, [](const auto& row) { return row.second; });
  if (found == kDTypes.end()) {
    throw_invalid("[engine] tensors of dtype ", c10::toString(dtype), " are not supported.");
  }
  return found->first;
}

c10::MemoryFormat to_torch(graph::MemoryFormat format) {
  switch (format) {
    case graph::MemoryFormat::kContiguous:
      return c10::MemoryFormat::Contiguous;
    case graph::MemoryFormat::kChannelsLast:
      return c10::MemoryFormat::ChannelsLast;
    case graph::MemoryFormat::kChannelsLast3d:
      return c10::MemoryFormat::ChannelsLast3d;
    case graph::MemoryFormat::kPreserve:
      break;
  }
  return c10::MemoryFormat::Preserve;
}

c10::Device to_torch(const graph::Device& device) {
  if (device.index < 0) {
    return c10::Device(device.type);
  }
  return c10::Device(concat(device.type, ":", device.index));
}

}  // namespace ravnest::engine
