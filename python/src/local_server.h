#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ravnest::python {

// Adds LocalServer.
void bind_local_server(pybind11::module_& module);

}  // namespace ravnest::python
