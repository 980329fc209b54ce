#pragma once

#include <c10/core/Device.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include "ravnest/graph/program.h"

namespace ravnest::engine {

// Between the Program's own enums and libtorch's.
c10::ScalarType to_torch(graph::DType dtype);
graph::DType from_torch(c10::ScalarType dtype);
c10::MemoryFormat to_torch(graph::MemoryFormat format);
c10::Device to_torch(const graph::Device& device);

}  // namespace ravnest::engine
