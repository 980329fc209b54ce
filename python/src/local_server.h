#pragma once

#include <torch/extension.h>

namespace ravnest::python {

// Adds LocalServer.
void bind_local_server(pybind11::module_& module);

}  // namespace ravnest::python
