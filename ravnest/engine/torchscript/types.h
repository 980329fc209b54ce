#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "ravnest/graph/program.h"

namespace ravnest::engine {

graph::MemoryFormat to_program_memory_format(c10::MemoryFormat format);
graph::Device to_program_device(const c10::Device& device);

// The type of a plain strided tensor, with its sizes as they are now.
graph::TensorType to_program_type(const at::Tensor& tensor);

// What an exception of libtorch says, without its backtrace and on one line.
std::string brief_error(const std::exception& error);

}  // namespace ravnest::engine
