#include "optim.h"

#include "ravnest/base/error.h"
#include "ravnest/engine/optim/compensation.h"
#include "ravnest/engine/optim/optimizer.h"
#include "ravnest/engine/optim/scheduler.h"

namespace py = pybind11;

namespace ravnest::python {

namespace {

using engine::Optimizer;
using engine::Scheduler;
using MaybeTensor = std::optional<at::Tensor>;

bool is_number(const py::handle& value) {
  return py::isinstance<py::float_>(value) || py::isinstance<py::int_>(value);
}

engine::OptionValue to_option(const std::string& name, const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) {
    return value.cast<bool>();
  }
  if (is_number(value)) {
    return value.cast<double>();
  }
  if (py::isinstance<py::str>(value)) {
    return value.cast<std::string>();
  }
  const bool is_list = py::isinstance<py::tuple>(value) || py::isinstance<py::list>(value);
  if (!is_list || !std::ranges::all_of(value.cast<py::sequence>(), is_number)) {
    throw_invalid("[optim] expected the option ", name,
                  " to be a flag, a number, a word or a list of numbers, got ",
                  py::repr(value).cast<std::string>(), ".");
  }
  return value.cast<std::vector<double>>();
}

void step(Optimizer& self, const std::vector<std::string>& names,
          const std::vector<at::Tensor>& values, const std::vector<MaybeTensor>& gradients,
          std::vector<at::Tensor> results, const engine::StepOptions& options) {
  if (values.size() != names.size() || gradients.size() != names.size() ||
      results.size() != names.size()) {
    throw_invalid("[optim] expected as many values, gradients and results as names (", names.size(),
                  "), got ", values.size(), ", ", gradients.size(), " and ", results.size(), ".");
  }
  const at::Tensor none;
  std::vector<engine::ParameterUpdate> updates;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const at::Tensor& gradient = gradients[i] ? *gradients[i] : none;
    updates.push_back({names[i], values[i], gradient, results[i]});
  }
  const py::gil_scoped_release release;
  self.step(updates, options);
}

void bind_optimizer(py::module_& module) {
  py::class_<Optimizer>(module, "Optimizer")
      .def(py::init([](const std::string& name, const py::dict& options) {
             return Optimizer(name, to_options(options));
           }),
           py::arg("name"), py::arg("options") = py::dict())
      .def(
          "step",
          [](Optimizer& self, const std::vector<std::string>& names,
             const std::vector<at::Tensor>& values, const std::vector<MaybeTensor>& gradients,
             std::vector<at::Tensor> results, double gradient_scale, std::optional<double> max_norm,
             double rate_factor) {
            step(self, names, values, gradients, std::move(results),
                 {.gradient_scale = gradient_scale,
                  .max_norm = max_norm,
                  .rate_factor = rate_factor});
          },
          py::arg("names"), py::arg("values"), py::arg("gradients"), py::arg("results"),
          py::arg("gradient_scale") = 1.0, py::arg("max_norm") = py::none(),
          py::arg("rate_factor") = 1.0)
      .def(
          "predict",
          [](const Optimizer& self, const std::string& name, const at::Tensor& value, double delay,
             at::Tensor result) {
            const py::gil_scoped_release release;
            self.predict(name, value, delay, result);
          },
          py::arg("name"), py::arg("value"), py::arg("delay"), py::arg("result"))
      .def("state", &Optimizer::state, py::call_guard<py::gil_scoped_release>())
      .def("load_state", &Optimizer::load_state, py::arg("state"), py::arg("parameters"),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("name", &Optimizer::name)
      .def_property("rate", &Optimizer::rate, &Optimizer::set_rate)
      .def_property("momentum", &Optimizer::momentum, &Optimizer::set_momentum)
      .def_static("known_names", &Optimizer::known_names);
}

void bind_scheduler(py::module_& module) {
  py::class_<Scheduler>(module, "Scheduler")
      .def(py::init([](const std::string& name, const py::dict& options, double base_rate) {
             return Scheduler(name, to_options(options), base_rate);
           }),
           py::arg("name"), py::arg("options"), py::arg("base_rate"))
      .def("step", &Scheduler::step)
      .def_property_readonly("rate", &Scheduler::rate)
      .def_property_readonly("momentum", &Scheduler::momentum)
      .def("state", &Scheduler::state)
      .def("load_state", &Scheduler::load_state, py::arg("steps"))
      .def_static("known_names", &Scheduler::known_names);
}

}  // namespace

engine::OptionMap to_options(const py::dict& given) {
  engine::OptionMap options;
  for (const auto& [key, value] : given) {
    const auto name = key.cast<std::string>();
    options.emplace(name, to_option(name, value));
  }
  return options;
}

void bind_optim(py::module_& module) {
  bind_optimizer(module);
  bind_scheduler(module);
  module.def("warmup_factor", &engine::warmup_factor, py::arg("delay"), py::arg("update"),
             py::arg("warmup_updates"));
}

}  // namespace ravnest::python
