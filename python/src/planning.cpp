#include "planning.h"

#include "convert.h"
#include "ravnest/base/atomic_file.h"
#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/engine/bound_program.h"
#include "ravnest/engine/forward_profile.h"
#include "ravnest/package/package.h"
#include "ravnest/planner/plan.h"
#include "ravnest/planner/report/picture.h"
#include "ravnest/planner/report/report.h"
#include "ravnest/planner/report/tables.h"
#include "ravnest/planner/simulate/simulate.h"

namespace py = pybind11;

namespace ravnest::python {

namespace {

using engine::BoundProgram;
using planner::Plan;

// Ctrl-C, while C++ works.
void check_signals() {
  const py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}

planner::ClusterCount to_cluster_count(const py::object& value) {
  if (value.is_none()) {
    return {};
  }
  if (py::isinstance<py::str>(value) && value.cast<std::string>() == "auto") {
    return planner::AutoClusters{};
  }
  if (py::isinstance<py::int_>(value) && !py::isinstance<py::bool_>(value) &&
      value.cast<std::int64_t>() >= 1) {
    return value.cast<std::size_t>();
  }
  throw_invalid(
      "[clusterize] expected clusters to be a number of 1 or more, \"auto\" or None, got ",
      py::repr(value).cast<std::string>(), ".");
}

graph::OptimizerKind to_optimizer(const std::string& name) {
  const auto kind = graph::find_optimizer(name);
  if (!kind) {
    throw_invalid("[clusterize] expected optimizer to be sgd, momentum or adam, got '", name, "'.");
  }
  return *kind;
}

Plan make_plan(const BoundProgram& program, const std::string& nodes,
               const std::optional<py::sequence>& profiled_inputs, const py::object& clusters,
               const std::string& optimizer, std::optional<std::int64_t> batch, std::uint64_t seed,
               std::size_t population, std::size_t generations) {
  planner::PlanOptions options;
  options.seed = seed;
  options.clusters = to_cluster_count(clusters);
  options.optimizer = to_optimizer(optimizer);
  options.batch = batch;
  options.population = population;
  options.generations = generations;
  std::vector<c10::IValue> inputs;
  if (profiled_inputs) {
    inputs = to_ivalues(*profiled_inputs);
  }
  options.check_interrupted = check_signals;
  const py::gil_scoped_release release;
  const std::vector<planner::Machine> pool = planner::read_pool(std::filesystem::path(nodes));
  if (profiled_inputs) {
    engine::ForwardProfile profile = engine::profile_forward(program, inputs);
    options.op_seconds = std::move(profile.op_seconds);
    options.kept_bytes = profile.kept_bytes;
  }
  return planner::make_plan(program.program(), pool, options);
}

planner::Schedule to_simulated_schedule(const std::string& name) {
  for (const planner::Schedule schedule : {planner::Schedule::kAsync, planner::Schedule::kSync}) {
    if (name == planner::name_of(schedule)) {
      return schedule;
    }
  }
  throw_invalid("[simulate] expected schedule to be async or sync, got '", name, "'.");
}

}  // namespace

void bind_planning(py::module_& module) {
  using planner::SimulateOptions;
  using planner::Simulation;

  py::class_<Plan>(module, "Plan")
      .def("json", &planner::plan_json)
      .def("log", &planner::reference_log)
      .def("table", [](const Plan& self) { return planner::plan_table(self, detect_style()); })
      .def("svg", &planner::plan_svg)
      .def("write",
           [](const Plan& self, const BoundProgram& program, const std::string& node_data) {
             const py::gil_scoped_release release;
             package::write_plan(program.snapshot(), self, node_data);
           })
      .def(
          "simulate",
          [](const Plan& self, double seconds, const std::string& schedule,
             std::size_t micro_batches, std::size_t reduce_factor,
             const std::vector<std::tuple<std::int64_t, double, double>>& absences,
             double mean_present_seconds, double mean_away_seconds, double jitter,
             std::uint64_t seed, double timeline_seconds) {
            SimulateOptions options;
            options.seconds = seconds;
            options.schedule = to_simulated_schedule(schedule);
            options.micro_batches = micro_batches;
            options.reduce_factor = reduce_factor;
            for (const auto& [machine, from, to] : absences) {
              options.churn.absences.push_back({.machine = machine, .from = from, .to = to});
            }
            options.churn.mean_present_seconds = mean_present_seconds;
            options.churn.mean_away_seconds = mean_away_seconds;
            options.jitter = jitter;
            options.seed = seed;
            options.timeline_seconds = timeline_seconds;
            options.check_interrupted = check_signals;
            const py::gil_scoped_release release;
            return planner::simulate(self, options);
          },
          py::arg("seconds"), py::arg("schedule"), py::arg("micro_batches"),
          py::arg("reduce_factor"), py::arg("absences"), py::arg("mean_present_seconds"),
          py::arg("mean_away_seconds"), py::arg("jitter"), py::arg("seed"),
          py::arg("timeline_seconds"))
      .def_property_readonly("bottleneck_seconds", [](const Plan& self) {
        double slowest = 0.0;
        for (const planner::Cluster& cluster : self.clusters) {
          slowest = std::max(slowest, cluster.bottleneck_seconds);
        }
        return slowest;
      });

  py::class_<Simulation>(module, "Simulation")
      .def("json", [](const Simulation& self, const Plan& plan) { return to_json(self, plan); })
      .def("table",
           [](const Simulation& self, const Plan& plan, const Simulation& other) {
             return planner::simulation_table(plan, self, other, detect_style());
           })
      .def("svg", [](const Simulation& self, const Plan& plan) {
        return planner::timeline_svg(plan, self);
      });

  module.def("write_file", [](const std::string& path, const std::string& text) {
    AtomicFile file(path);
    file.write(text);
    file.commit();
  });
  module.def("make_plan", &make_plan, py::arg("program"), py::arg("nodes"),
             py::arg("profiled_inputs"), py::arg("clusters"), py::arg("optimizer"),
             py::arg("batch"), py::arg("seed"), py::arg("population"), py::arg("generations"));
}

}  // namespace ravnest::python
