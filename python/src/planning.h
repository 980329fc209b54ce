#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ravnest::python {

// Adds Plan, make_plan and what belongs to them.
void bind_planning(pybind11::module_& module);

}  // namespace ravnest::python
