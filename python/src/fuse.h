#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ravnest::python {

// Adds fuse_cluster and read_safetensors.
void bind_fuse(pybind11::module_& module);

}  // namespace ravnest::python
