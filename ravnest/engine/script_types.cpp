#include "ravnest/engine/script_types.h"

#include <c10/core/MemoryFormat.h>
#include <c10/util/Exception.h>

#include <cstring>

#include "ravnest/base/error.h"

namespace ravnest::engine {

graph::DType to_program_dtype(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Byte:
      return graph::DType::kUInt8;
    case c10::ScalarType::Char:
      return graph::DType::kInt8;
    case c10::ScalarType::Short:
      return graph::DType::kInt16;
    case c10::ScalarType::Int:
      return graph::DType::kInt32;
    case c10::ScalarType::Long:
      return graph::DType::kInt64;
    case c10::ScalarType::Half:
      return graph::DType::kFloat16;
    case c10::ScalarType::Float:
      return graph::DType::kFloat32;
    case c10::ScalarType::Double:
      return graph::DType::kFloat64;
    case c10::ScalarType::ComplexHalf:
      return graph::DType::kComplex32;
    case c10::ScalarType::ComplexFloat:
      return graph::DType::kComplex64;
    case c10::ScalarType::ComplexDouble:
      return graph::DType::kComplex128;
    case c10::ScalarType::Bool:
      return graph::DType::kBool;
    case c10::ScalarType::BFloat16:
      return graph::DType::kBFloat16;
    case c10::ScalarType::UInt16:
      return graph::DType::kUInt16;
    default:
      throw_invalid("[torchscript] expected an element type a Program can hold, got ",
                    c10::toString(type), ".");
  }
}

graph::MemoryFormat to_program_memory_format(c10::MemoryFormat format) {
  switch (format) {
    case c10::MemoryFormat::Contiguous:
      return graph::MemoryFormat::kContiguous;
    case c10::MemoryFormat::ChannelsLast:
      return graph::MemoryFormat::kChannelsLast;
    case c10::MemoryFormat::ChannelsLast3d:
      return graph::MemoryFormat::kChannelsLast3d;
    case c10::MemoryFormat::Preserve:
      return graph::MemoryFormat::kPreserve;
    default:
      throw_invalid("[torchscript] expected a memory format, got number ",
                    static_cast<int>(format), ".");
  }
}

graph::Device to_program_device(const c10::Device& device) {
  return {.type = c10::DeviceTypeName(device.type(), true), .index = device.index()};
}

graph::TensorType to_program_type(const at::Tensor& tensor) {
  graph::TensorType type;
  type.dtype = to_program_dtype(tensor.scalar_type());
  type.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  type.strides.assign(tensor.strides().begin(), tensor.strides().end());
  type.storage_offset = tensor.storage_offset();
  return type;
}

std::string brief_error(const std::exception& error) {
  std::string text;
  if (const auto* torch_error = dynamic_cast<const c10::Error*>(&error)) {
    text = torch_error->what_without_backtrace();
  } else {
    text = error.what();
  }
  const std::size_t trace = text.find("\nException raised from");
  text = text.substr(0, trace);
  for (char& letter : text) {
    if (letter == '\n') {
      letter = ' ';
    }
  }
  constexpr std::size_t kLongest = 400;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + " …";
}

}  // namespace ravnest::engine
