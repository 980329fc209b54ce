#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ravnest::python {

// Adds plot_run.
void bind_plot(pybind11::module_& module);

}  // namespace ravnest::python
