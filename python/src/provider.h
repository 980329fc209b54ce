#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ravnest::python {

// Adds Provider, and what a node reads before it has one.
void bind_provider(pybind11::module_& module);

}  // namespace ravnest::python
