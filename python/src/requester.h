#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ravnest::python {

// Adds Requester and RemoteJob.
void bind_requester(pybind11::module_& module);

}  // namespace ravnest::python
