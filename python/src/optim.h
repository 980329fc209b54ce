#pragma once

#include <torch/csrc/utils/pybind.h>

#include "ravnest/engine/optim/options.h"

namespace ravnest::python {

// Flags, numbers, words and lists of numbers by name. Throws std::invalid_argument for others.
engine::OptionMap to_options(const pybind11::dict& given);

// Adds Optimizer, Scheduler and warmup_factor.
void bind_optim(pybind11::module_& module);

}  // namespace ravnest::python
