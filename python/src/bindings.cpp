// The extension `ravnest._C`: converts types, releases the GIL, calls C++.

#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <sstream>

#include "convert.h"
#include "display.h"
#include "fuse.h"
#include "local_server.h"
#include "optim.h"
#include "planning.h"
#include "plot.h"
#include "provider.h"
#include "ravnest/base/error.h"
#include "ravnest/engine/bound_program.h"
#include "ravnest/engine/load.h"
#include "ravnest/engine/torchscript/torchscript.h"
#include "ravnest/graph/lint.h"
#include "ravnest/graph/mode.h"
#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/graph/text/text.h"
#include "requester.h"

namespace py = pybind11;

namespace {

using ravnest::engine::BoundProgram;
using ravnest::engine::BoundStages;
using ravnest::engine::Mode;
namespace graph = ravnest::graph;

Mode mode_of(bool training) { return training ? Mode::kTrain : Mode::kEval; }

using ravnest::python::to_ivalue;
using ravnest::python::to_ivalues;

// An example input of a TorchScript model: leaves, nested in tuples, lists and dicts.
c10::IValue to_nested_ivalue(const py::handle& value) {
  if (py::isinstance<py::tuple>(value)) {
    std::vector<c10::IValue> items;
    for (const py::handle item : value) {
      items.push_back(to_nested_ivalue(item));
    }
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (py::isinstance<py::list>(value)) {
    std::vector<c10::IValue> items;
    for (const py::handle item : value) {
      items.push_back(to_nested_ivalue(item));
    }
    c10::impl::GenericList list(items.empty() ? c10::TensorType::get() : items[0].type());
    for (c10::IValue& item : items) {
      list.push_back(std::move(item));
    }
    return list;
  }
  if (py::isinstance<py::dict>(value)) {
    c10::TypePtr content = c10::TensorType::get();
    std::vector<std::pair<std::string, c10::IValue>> items;
    for (const auto& [key, item] : value.cast<py::dict>()) {
      items.emplace_back(key.cast<std::string>(), to_nested_ivalue(item));
      content = items.back().second.type();
    }
    c10::impl::GenericDict dict(c10::StringType::get(), content);
    for (auto& [key, item] : items) {
      dict.insert(key, std::move(item));
    }
    return dict;
  }
  if (py::isinstance<py::str>(value)) {
    return value.cast<std::string>();
  }
  return to_ivalue(value);
}

py::list to_python(std::vector<c10::IValue> values) {
  py::list converted;
  for (c10::IValue& value : values) {
    converted.append(torch::jit::toPyObject(std::move(value)));
  }
  return converted;
}

py::list run(const BoundProgram& program, const py::sequence& inputs, bool training) {
  std::vector<c10::IValue> given = to_ivalues(inputs);
  std::vector<c10::IValue> outputs;
  {
    const py::gil_scoped_release release;
    outputs = program.run(std::move(given), mode_of(training));
  }
  return to_python(std::move(outputs));
}

py::list run_stages(const BoundStages& stages, const py::sequence& inputs, bool training) {
  std::vector<c10::IValue> given = to_ivalues(inputs);
  std::vector<c10::IValue> outputs;
  {
    const py::gil_scoped_release release;
    outputs = stages.run(given, mode_of(training));
  }
  return to_python(std::move(outputs));
}

py::dict weights_of(const BoundProgram& program, graph::InputKind kind) {
  py::dict found;
  for (const graph::Weight& weight : program.program().weights) {
    if (weight.kind == kind && &program.program().canonical(weight) == &weight) {
      found[py::str(weight.name)] = program.weight(weight.name);
    }
  }
  return found;
}

py::dict state_dict(const BoundProgram& program) {
  py::dict found;
  for (const graph::Weight& weight : program.program().weights) {
    if (weight.in_state_dict()) {
      found[py::str(weight.name)] = program.weight(weight.name).detach();
    }
  }
  return found;
}

// What the caller passes, for messages and for literals: (name, is_literal, literal).
py::list describe_inputs(const BoundProgram& program, bool training) {
  const graph::Graph& source = program.graph(mode_of(training));
  py::list described;
  for (const graph::Input* input : source.user_inputs()) {
    const bool literal = input->kind == graph::InputKind::kLiteral;
    py::object value = py::none();
    if (literal) {
      std::visit(
          [&value](const auto& content) {
            using Content = std::decay_t<decltype(content)>;
            if constexpr (std::is_same_v<Content, bool> || std::is_same_v<Content, std::int64_t> ||
                          std::is_same_v<Content, double> || std::is_same_v<Content, std::string>) {
              value = py::cast(content);
            }
          },
          input->literal.value);
    }
    described.append(
        py::make_tuple(literal ? input->target : source.value(input->value).name, literal, value));
  }
  return described;
}

// Removes "model." that a wrapper around the user's module put before names.
void strip_prefix(graph::Program& program, const std::string& prefix) {
  const auto strip = [&prefix](std::string& name) {
    if (name.starts_with(prefix)) {
      name.erase(0, prefix.size());
    }
  };
  for (graph::Weight& weight : program.weights) {
    if (!weight.name.starts_with(prefix)) {
      weight.kind = graph::InputKind::kConstant;  // the loss's own tensors are no state
    }
    strip(weight.name);
  }
  for (graph::Graph* source : {&program.graph, &*program.eval_graph}) {
    for (graph::Input& input : source->inputs) {
      if (input.is_weight()) {
        input.kind = input.target.starts_with(prefix) ? input.kind : graph::InputKind::kConstant;
        strip(input.target);
      }
    }
    for (graph::Op& op : source->ops) {
      strip(op.module);
      if (op.module + "." == prefix) {
        op.module.clear();
      }
    }
  }
}

// Gives the values a caller passes the caller's names, and weights those without
// the wrapper.
void name_inputs(graph::Graph& source, const std::vector<std::string>& names) {
  std::set<std::string> taken;
  for (const graph::Value& value : source.values) {
    taken.insert(value.name);
  }
  const auto rename = [&](graph::ValueId id, const std::string& name) {
    if (taken.insert(name).second) {
      source.values[id].name = name;
    }
  };
  std::size_t index = 0;
  for (const graph::Input& input : source.inputs) {
    if (input.is_weight()) {
      std::string name = source.value(input.value).name;
      const std::size_t at = name.find("_model_");
      if (at != std::string::npos) {
        rename(input.value, name.erase(at, 6));
      }
      continue;
    }
    if (index < names.size() && input.kind == graph::InputKind::kUser) {
      rename(input.value, names[index]);
    }
    ++index;
  }
}

// Export lists parameters before buffers; users know the module's own order.
void order_weights(graph::Program& program, const std::vector<std::string>& order) {
  std::map<std::string, std::size_t> rank;
  for (std::size_t i = 0; i < order.size(); ++i) {
    rank.emplace(order[i], i);
  }
  std::ranges::stable_sort(program.weights, {}, [&rank, &order](const graph::Weight& weight) {
    const auto found = rank.find(weight.name);
    return found == rank.end() ? order.size() : found->second;
  });
  graph::settle_weight_names(program);
}

// Two exports of one model, in training and in evaluation, as one Program.
std::shared_ptr<BoundProgram> read_capture(const std::string& train, const std::string& eval,
                                           const std::string& prefix, const std::string& in_spec,
                                           const std::vector<std::string>& input_names,
                                           const std::vector<std::string>& state_order,
                                           const std::map<std::string, std::string>& metadata) {
  const py::gil_scoped_release release;
  graph::Program program = graph::read_pt2(train);
  program.eval_graph = graph::read_pt2(eval).graph;
  program.graph.in_spec = in_spec;
  program.eval_graph->in_spec = in_spec;
  strip_prefix(program, prefix);
  name_inputs(program.graph, input_names);
  name_inputs(*program.eval_graph, input_names);
  order_weights(program, state_order);
  program.metadata.insert(metadata.begin(), metadata.end());
  graph::drop_redundant_eval(program);
  graph::lint(program, "captured model");
  return std::make_shared<BoundProgram>(std::move(program));
}

ravnest::engine::ImportOptions import_options(const py::tuple& args, const py::dict& kwargs) {
  ravnest::engine::ImportOptions options;
  for (const py::handle value : args) {
    options.example_args.push_back(to_nested_ivalue(value));
  }
  for (const auto& [name, value] : kwargs) {
    options.example_kwargs.emplace_back(name.cast<std::string>(), to_nested_ivalue(value));
  }
  return options;
}

std::shared_ptr<BoundProgram> load_model(const std::string& path, const py::tuple& args,
                                         const py::dict& kwargs) {
  const ravnest::engine::ImportOptions options = import_options(args, kwargs);
  const py::gil_scoped_release release;
  graph::Program program = ravnest::engine::load_program(path, options);
  graph::lint(program, path);
  return std::make_shared<BoundProgram>(std::move(program));
}

std::shared_ptr<BoundProgram> read_torchscript(const py::bytes& archive, const py::tuple& args,
                                               const py::dict& kwargs,
                                               const std::set<std::string>& transient) {
  ravnest::engine::ImportOptions options = import_options(args, kwargs);
  options.transient_buffers = transient;
  std::istringstream stream{std::string(archive)};
  const py::gil_scoped_release release;
  graph::Program program = ravnest::engine::import_torchscript(stream, options);
  graph::drop_redundant_eval(program);
  graph::lint(program, "TorchScript model");
  return std::make_shared<BoundProgram>(std::move(program));
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.doc() = "The C++ core of Ravnest.";
  module.attr("version") = RAVNEST_VERSION;

  py::class_<BoundProgram, std::shared_ptr<BoundProgram>>(module, "BoundProgram")
      .def("run", &run, py::arg("inputs"), py::arg("training"))
      .def("parameters",
           [](const BoundProgram& self) { return weights_of(self, graph::InputKind::kParameter); })
      .def("buffers",
           [](const BoundProgram& self) { return weights_of(self, graph::InputKind::kBuffer); })
      .def("state_dict", &state_dict)
      .def("inputs", &describe_inputs, py::arg("training"))
      .def("in_spec", [](const BoundProgram& self,
                         bool training) { return self.graph(mode_of(training)).in_spec; })
      .def("out_spec", [](const BoundProgram& self,
                          bool training) { return self.graph(mode_of(training)).out_spec; })
      .def_property_readonly(
          "num_ops", [](const BoundProgram& self) { return self.program().graph.ops.size(); })
      .def("op_labels",
           [](const BoundProgram& self) {
             py::list labels;
             const graph::Graph& source = self.program().graph;
             for (const graph::Op& op : source.ops) {
               const bool named = !op.results.empty() && !op.results[0].values.empty();
               labels.append(py::make_tuple(
                   named ? source.value(op.results[0].values[0]).name : std::string(), op.module));
             }
             return labels;
           })
      .def_property_readonly("metadata",
                             [](const BoundProgram& self) { return self.program().metadata; })
      .def_property_readonly("symbols",
                             [](const BoundProgram& self) {
                               std::map<std::string, std::int64_t> hints =
                                   self.program().graph.hints();
                               return hints;
                             })
      .def("text", [](const BoundProgram& self) { return graph::to_text(self.program()); })
      .def("save",
           [](const BoundProgram& self, const std::string& path) {
             const py::gil_scoped_release release;
             graph::write_pt2(self.snapshot(), path);
           })
      .def("to",
           [](BoundProgram& self, const std::string& device) {
             const py::gil_scoped_release release;
             self.to(c10::Device(device));
           })
      .def("near_equal_cuts",
           [](const BoundProgram& self, std::size_t stages) {
             return graph::near_equal_cuts(self.program(), stages);
           })
      .def("slice", [](const BoundProgram& self, const std::vector<std::size_t>& cuts) {
        return std::make_shared<BoundStages>(self.slice(cuts));
      });

  py::class_<BoundStages, std::shared_ptr<BoundStages>>(module, "BoundStages")
      .def("run", &run_stages, py::arg("inputs"), py::arg("training"))
      .def("__len__", &BoundStages::size)
      .def("stage", [](const std::shared_ptr<BoundStages>& self, std::size_t index) {
        return std::shared_ptr<BoundProgram>(self, &self->stage(index));
      });

  module.def("read_pt2", [](const std::string& path) {
    const py::gil_scoped_release release;
    return std::make_shared<BoundProgram>(graph::read_pt2(path));
  });
  module.def("read_capture", &read_capture);
  module.def("read_torchscript", &read_torchscript);
  module.def("load_model", &load_model);
  ravnest::python::bind_planning(module);
  ravnest::python::bind_optim(module);
  ravnest::python::bind_provider(module);
  ravnest::python::bind_display(module);
  ravnest::python::bind_requester(module);
  ravnest::python::bind_local_server(module);
  ravnest::python::bind_fuse(module);
  ravnest::python::bind_plot(module);

  py::register_exception<ravnest::Error>(module, "Error", PyExc_OSError);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(std::move(thrown));
    } catch (const c10::Error& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
    }
  });
}
