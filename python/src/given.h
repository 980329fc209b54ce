#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <utility>

#include "python_call.h"
#include "ravnest/base/error.h"

namespace ravnest::python {

namespace py = pybind11;

// What was given under a name; None is nothing.
class Given {
 public:
  explicit Given(py::kwargs given) : given_(std::move(given)) {}

  py::object take(const char* name) {
    return given_.contains(name) ? given_.attr("pop")(name).cast<py::object>() : py::none();
  }

  Shared take_shared(const char* name) {
    py::object value = take(name);
    return value.is_none() ? nullptr : share(std::move(value));
  }

  template <typename Value>
  void take(const char* name, Value& value) {
    if (const py::object given = take(name); !given.is_none()) {
      value = given.cast<Value>();
    }
  }

  // Throws where something was not taken.
  void finish() const {
    if (!given_.empty()) {
      throw_invalid("[node] unknown options: ", py::str(py::list(given_)).cast<std::string>(), ".");
    }
  }

 private:
  py::kwargs given_;
};

}  // namespace ravnest::python
