#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "ravnest/provider/update_rule.h"

namespace ravnest::python {

// What a callable of Python returns for a stage: a dict of provider::RuleOptions is an optimizer
// of ours, and anything else is asked itself (ravnest.optim.PythonRule).
std::unique_ptr<provider::UpdateRule> make_rule(const pybind11::object& made);

}  // namespace ravnest::python
