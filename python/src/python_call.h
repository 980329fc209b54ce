#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <stdexcept>

namespace ravnest::python {

// An object of Python that C++ holds. It is let go with the GIL, whatever thread does so, and
// left alone once Python is ending.
using Shared = std::shared_ptr<pybind11::object>;
Shared share(pybind11::object object);

// An exception of Python on its way through C++: its text goes to other nodes, and whoever waits
// gets the exception itself, as often as it is thrown.
class PythonError : public std::runtime_error {
 public:
  // With the GIL.
  explicit PythonError(const pybind11::error_already_set& error);

  void raise() const;

 private:
  Shared value_;
};

// Calls with the GIL; what Python raises is thrown as PythonError.
template <typename Function>
auto call_python(const Function& function) {
  const pybind11::gil_scoped_acquire acquire;
  try {
    return function();
  } catch (const pybind11::error_already_set& error) {
    throw PythonError(error);
  }
}

}  // namespace ravnest::python
