#include "ravnest/engine/torchscript/types.h"

#include <c10/core/MemoryFormat.h>
#include <c10/util/Exception.h>

#include "ravnest/base/error.h"
#include "ravnest/engine/convert.h"

namespace ravnest::engine {

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
      throw_invalid("[torchscript] expected a memory format, got number ", static_cast<int>(format),
                    ".");
  }
}

graph::Device to_program_device(const c10::Device& device) {
  return {.type = c10::DeviceTypeName(device.type(), true), .index = device.index()};
}

graph::TensorType to_program_type(const at::Tensor& tensor) {
  graph::TensorType type;
  type.dtype = from_torch(tensor.scalar_type());
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
  for (const char* trace : {"\nException raised from", "\n\nAt:\n"}) {
    text = text.substr(0, text.find(trace));
  }
  for (char& letter : text) {
    if (letter == '\n') {
      letter = ' ';
    }
  }
  constexpr std::size_t kLongest = 400;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + " …";
}

}  // namespace ravnest::engine
