#include "plot.h"

#include "ravnest/plot/plot.h"

namespace py = pybind11;

namespace ravnest::python {

void bind_plot(py::module_& module) {
  module.def(
      "plot_run",
      [](std::vector<double> losses, std::vector<double> accuracies, const std::string& path,
         std::string title) {
        const py::gil_scoped_release release;
        plot::plot_run({.losses = std::move(losses),
                        .accuracies = std::move(accuracies),
                        .title = std::move(title)},
                       path);
      },
      py::arg("losses"), py::arg("accuracies"), py::arg("path"),
      py::arg("title") = plot::RunCurves().title);
}

}  // namespace ravnest::python
