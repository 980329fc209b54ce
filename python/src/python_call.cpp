#include "python_call.h"

namespace py = pybind11;

namespace ravnest::python {

namespace {

bool is_python_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

void let_go(py::object* object) {
  if (is_python_ending()) {
    return;
  }
  const py::gil_scoped_acquire acquire;
  delete object;
}

// Our own sentences as they are, others with what kind of error they are.
std::string text_of(const py::error_already_set& error) {
  const auto text = py::str(error.value()).cast<std::string>();
  return text.starts_with('[') ? text
                               : error.type().attr("__name__").cast<std::string>() + ": " + text;
}

}  // namespace

Shared share(py::object object) { return {new py::object(std::move(object)), let_go}; }

PythonError::PythonError(const py::error_already_set& error)
    : std::runtime_error(text_of(error)), value_(share(error.value())) {
  if (error.trace()) {
    PyException_SetTraceback(value_->ptr(), error.trace().ptr());
  }
}

void PythonError::raise() const { PyErr_SetObject(py::type::of(*value_).ptr(), value_->ptr()); }

}  // namespace ravnest::python
