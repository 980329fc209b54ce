#include "convert.h"

namespace py = pybind11;

namespace ravnest::python {

c10::IValue to_ivalue(const py::handle& value) {
  if (THPVariable_Check(value.ptr())) {
    return THPVariable_Unpack(value.ptr());
  }
  if (py::isinstance<py::bool_>(value)) {
    return value.cast<bool>();
  }
  if (py::isinstance<py::int_>(value)) {
    return value.cast<std::int64_t>();
  }
  if (py::isinstance<py::float_>(value)) {
    return value.cast<double>();
  }
  return {};
}

std::vector<c10::IValue> to_ivalues(const py::sequence& values) {
  std::vector<c10::IValue> converted;
  converted.reserve(values.size());
  for (const py::handle value : values) {
    converted.push_back(to_ivalue(value));
  }
  return converted;
}

}  // namespace ravnest::python
