#pragma once

#include <torch/csrc/utils/pybind.h>

#include <vector>

namespace ravnest::python {

// Leaves of the caller's inputs: tensors and numbers. Whatever else there is (None,
// strings) stands for a literal of the capture, and is compared in Python.
c10::IValue to_ivalue(const pybind11::handle& value);
std::vector<c10::IValue> to_ivalues(const pybind11::sequence& values);

}  // namespace ravnest::python
