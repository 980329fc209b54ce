#pragma once

#include <torch/extension.h>

namespace ravnest::python {

// Adds Optimizer and Scheduler.
void bind_optim(pybind11::module_& module);

}  // namespace ravnest::python
