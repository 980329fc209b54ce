#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ravnest::python {

// Adds Display, and the notices that it is told of. After Provider, whose Status it takes.
void bind_display(pybind11::module_& module);

}  // namespace ravnest::python
