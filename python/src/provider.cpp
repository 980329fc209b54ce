#include "provider.h"

#include "convert.h"
#include "provider_options.h"
#include "ravnest/base/error.h"
#include "ravnest/engine/bound_program.h"
#include "ravnest/engine/convert.h"
#include "ravnest/package/package.h"
#include "ravnest/provider/checkpoint.h"
#include "ravnest/provider/provider.h"
#include "ravnest/provider/score.h"
#include "ravnest/provider/stopped.h"

namespace ravnest::python {

namespace {

using engine::BoundProgram;
using provider::Milliseconds;
using provider::PassHeader;
using provider::PassResult;
using provider::Provider;
using provider::ProviderCallbacks;
using provider::ProviderOptions;
using provider::Purpose;

Purpose to_purpose(const std::string& name) {
  return named<Purpose>("a pass", name,
                        {{"train", Purpose::kTrain},
                         {"validate", Purpose::kValidate},
                         {"predict", Purpose::kPredict}});
}

// Ends with the GIL released: the loop's thread may need it to come to its end.
class PythonProvider {
 public:
  explicit PythonProvider(const py::kwargs& kwargs) {
    Given given(py::kwargs(kwargs.attr("copy")().cast<py::dict>()));
    ProviderOptions options = to_provider_options(given);
    ProviderCallbacks callbacks = to_callbacks(given);
    given.finish();
    const py::gil_scoped_release release;
    provider_ = std::make_unique<Provider>(std::move(options), std::move(callbacks));
  }
  ~PythonProvider() {
    const py::gil_scoped_release release;
    provider_.reset();
  }
  PythonProvider(const PythonProvider&) = delete;
  PythonProvider& operator=(const PythonProvider&) = delete;

  Provider& operator*() const { return *provider_; }
  Provider* operator->() const { return provider_.get(); }

 private:
  std::unique_ptr<Provider> provider_;
};

py::dict to_python(const package::NodeConfig& node) {
  py::dict described;
  described["id"] = node.id;
  described["address"] = node.address;
  described["plan"] = node.plan;
  described["cluster"] = node.cluster;
  described["clusters"] = node.clusters;
  described["stage"] = node.stage;
  described["stages"] = node.stages;
  described["role"] = node.role;
  described["batch"] = node.batch;
  return described;
}

py::dict to_python(const Provider::Status& status) {
  py::dict described;
  described["epoch"] = status.epoch;
  described["passes"] = status.passes;
  described["samples"] = status.samples;
  described["loss"] = status.loss;
  described["rate"] = status.rate;
  described["samples_per_second"] = status.samples_per_second;
  described["resumed"] = status.resumed;
  described["in_flight"] = status.loop.in_flight;
  described["limit"] = status.loop.limit;
  described["queued"] = status.loop.queued;
  described["unfinished"] = status.loop.unfinished;
  described["updates"] = status.loop.updates;
  described["delay"] = status.loop.delay;
  described["max_delay"] = status.loop.max_delay;
  py::dict delays;
  for (std::size_t delay = 0; delay < status.loop.delays.size(); ++delay) {
    delays[py::int_(delay)] = status.loop.delays[delay];
  }
  described["delays"] = delays;
  described["skipped"] = status.loop.skipped;
  described["versions"] = status.loop.versions;
  described["busy"] = status.loop.busy();
  described["averagings"] = status.averagings;
  described["averaged_bytes"] = status.averaged_bytes;
  return described;
}

bool submit(const PythonProvider& self, const std::string& purpose, const py::sequence& inputs,
            std::int64_t samples, std::int64_t epoch, std::int64_t part, std::int64_t timeout) {
  PassHeader header;
  header.purpose = to_purpose(purpose);
  header.epoch = epoch;
  header.samples = samples;
  header.part = header.is_training() ? 0 : part;
  header.parts = header.part + 1;
  const std::vector<c10::IValue> values = to_ivalues(inputs);
  const py::gil_scoped_release release;
  return self->submit(header, values, Milliseconds(timeout));
}

std::optional<py::list> take_prediction(const PythonProvider& self, std::int64_t timeout) {
  std::optional<std::vector<c10::IValue>> outputs;
  {
    const py::gil_scoped_release release;
    outputs = self->take_prediction(Milliseconds(timeout));
  }
  return outputs ? std::optional(to_python_list(std::move(*outputs))) : std::nullopt;
}

std::string out_spec(const PythonProvider& self, bool training) {
  const graph::Program& program = self->program();
  return training || !program.eval_graph ? program.graph.out_spec : program.eval_graph->out_spec;
}

template <bool (Provider::*Wait)(Milliseconds)>
bool waits(const PythonProvider& self, std::int64_t timeout) {
  return ((*self).*Wait)(Milliseconds(timeout));
}

void bind_class(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<Provider::Status>(module, "Status").def("to_dict", [](const Provider::Status& self) {
    return to_python(self);
  });
  py::class_<PythonProvider>(module, "Provider")
      .def(py::init<const py::kwargs&>())
      .def(
          "start", [](const PythonProvider& self) { self->start(); }, Release())
      .def("submit", &submit, py::arg("purpose"), py::arg("inputs"), py::arg("samples"),
           py::arg("epoch"), py::arg("part"), py::arg("timeout"))
      .def("wait_until_begun", waits<&Provider::wait_until_begun>, py::arg("timeout"), Release())
      .def("wait_until_idle", waits<&Provider::wait_until_idle>, py::arg("timeout"), Release())
      .def("wait_until_over", waits<&Provider::wait_until_over>, py::arg("timeout"), Release())
      .def("wait_until_ready", waits<&Provider::wait_until_ready>, py::arg("timeout"), Release())
      .def("take_prediction", &take_prediction, py::arg("timeout"))
      .def(
          "end_training", [](const PythonProvider& self) { self->end_training(); }, Release())
      .def(
          "end_validation", [](const PythonProvider& self) { self->end_validation(); }, Release())
      .def(
          "skip_validation", [](const PythonProvider& self) { self->skip_validation(); }, Release())
      .def(
          "wait_for_training",
          [](const PythonProvider& self, std::int64_t seen, std::int64_t timeout) {
            return self->wait_for_training(seen, Milliseconds(timeout));
          },
          py::arg("seen"), py::arg("timeout"), Release())
      .def(
          "wait_for_validation",
          [](const PythonProvider& self, std::int64_t seen, std::int64_t timeout) {
            return self->wait_for_validation(seen, Milliseconds(timeout));
          },
          py::arg("seen"), py::arg("timeout"), Release())
      .def(
          "validations_in_training",
          [](const PythonProvider& self) { return self->validations_in_training(); }, Release())
      .def(
          "last_validation",
          [](const PythonProvider& self) {
            const PassResult result = self->last_validation();
            return std::make_tuple(result.loss, result.correct, result.counted);
          },
          Release())
      .def(
          "is_over", [](const PythonProvider& self) { return self->is_over(); }, Release())
      .def(
          "save", [](const PythonProvider& self) { self->save(); }, Release())
      .def(
          "weights", [](const PythonProvider& self) { return self->weights(); }, Release())
      // The lock is not waited for with the GIL: its holder may be asking Python.
      .def(
          "status", [](const PythonProvider& self) { return self->status(); }, Release())
      .def(
          "stop",
          [](const PythonProvider& self, int exit_code, const std::string& reason) {
            self->stop(exit_code, reason);
          },
          py::arg("exit_code"), py::arg("reason"), Release())
      .def(
          "close",
          [](const PythonProvider& self, std::int64_t timeout) {
            self->close(Milliseconds(timeout));
          },
          py::arg("timeout"), Release())
      .def("out_spec", &out_spec, py::arg("training"))
      .def_property_readonly("metadata",
                             [](const PythonProvider& self) { return self->program().metadata; });
}

// What the caller would pass: zeros of the shapes that the graph was captured with.
py::list example_inputs(const BoundProgram& program) {
  const graph::Graph& source = program.program().graph;
  const graph::SymbolValues hints = source.hints();
  py::list examples;
  for (const graph::Input* input : source.user_inputs()) {
    const graph::Value& value = source.value(input->value);
    if (value.kind != graph::ValueKind::kTensor) {
      examples.append(value.expr.evaluate(hints).value_or(1));
      continue;
    }
    if (!value.type.is_known()) {
      throw_invalid("[node] the shape of the stage's input '", value.name,
                    "' is not known: cut the model with example inputs.");
    }
    std::vector<std::int64_t> sizes;
    for (const graph::Expr& size : value.type.sizes) {
      sizes.push_back(size.evaluate(hints).value_or(1));
    }
    examples.append(torch::zeros(sizes, engine::to_torch(value.type.dtype)));
  }
  return examples;
}

void bind_exceptions(py::module_& module) {
  static py::object stopped = py::exception<provider::StoppedRun>(module, "StoppedRun");
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(std::move(thrown));
    } catch (const PythonError& error) {
      error.raise();
    } catch (const provider::StoppedRun& error) {
      const py::object raised = stopped(error.what());
      raised.attr("exit_code") = error.exit_code();
      PyErr_SetObject(stopped.ptr(), raised.ptr());
    }
  });
}

}  // namespace

void bind_provider(py::module_& module) {
  bind_class(module);
  bind_exceptions(module);
  module.def("read_node", [](const std::string& node_data, const std::string& name) {
    return to_python(package::read_node(node_data, name));
  });
  module.def("read_stage", [](const std::string& node_data, const std::string& name) {
    const py::gil_scoped_release release;
    const package::NodeConfig node = package::read_node(node_data, name);
    return std::make_shared<BoundProgram>(package::read_stage(node_data, node).program);
  });
  module.def("stage_folder", [](const std::string& node_data, const std::string& name) {
    return package::stage_folder(node_data, package::read_node(node_data, name)).string();
  });
  module.def("checkpoint_path", [](const std::string& node_data, const std::string& name) {
    return provider::checkpoint_path(node_data, package::read_node(node_data, name)).string();
  });
  module.def("example_inputs", &example_inputs);
  module.def("num_outputs",
             [](const BoundProgram& program) { return program.program().graph.outputs.size(); });
  module.def("count_correct", [](const at::Tensor& output, const at::Tensor& target) {
    const PassResult result = provider::count_correct(output, target);
    return std::make_pair(result.correct, result.counted);
  });
}

}  // namespace ravnest::python
