#include "requester.h"

#include <torch/csrc/jit/python/pybind_utils.h>

#include "convert.h"
#include "python_call.h"
#include "ravnest/package/package.h"
#include "ravnest/provider/checkpoint.h"
#include "ravnest/provider/requester.h"

namespace py = pybind11;

namespace ravnest::python {

namespace {

using provider::PassHeader;
using provider::PassResult;
using provider::Requester;
using transport::Milliseconds;

// Ends with the GIL released: the transport's threads may need it to come to their end.
class PythonRequester {
 public:
  PythonRequester(const std::string& node_data, const std::string& root, py::object on_result) {
    const package::NodeConfig node = package::read_node(node_data, root);
    provider::RequesterOptions options;
    options.plan = node.plan;
    options.root = {.name = root, .address = node.address};
    const Shared callback = share(std::move(on_result));
    options.on_result = [callback](const PassHeader& header, const PassResult& result) {
      call_python([&] {
        (*callback)(header.pass, header.epoch, header.samples, header.part, header.parts,
                    header.weight, result.loss);
      });
    };
    const py::gil_scoped_release release;
    requester_ = std::make_unique<Requester>(std::move(options));
  }
  ~PythonRequester() {
    const py::gil_scoped_release release;
    requester_.reset();
  }
  PythonRequester(const PythonRequester&) = delete;
  PythonRequester& operator=(const PythonRequester&) = delete;

  Requester* operator->() const { return requester_.get(); }

 private:
  std::unique_ptr<Requester> requester_;
};

bool submit(const PythonRequester& self, const std::string& purpose, const py::sequence& inputs,
            std::int64_t samples, std::int64_t epoch, std::int64_t part, std::int64_t parts,
            double weight, std::int64_t timeout) {
  using provider::Purpose;
  const PassHeader header{.purpose = purpose == "train"      ? Purpose::kTrain
                                     : purpose == "validate" ? Purpose::kValidate
                                                             : Purpose::kPredict,
                          .epoch = epoch,
                          .samples = samples,
                          .part = part,
                          .parts = parts,
                          .weight = weight};
  const std::vector<c10::IValue> values = to_ivalues(inputs);
  const py::gil_scoped_release release;
  return self->submit(header, values, Milliseconds(timeout));
}

std::optional<std::tuple<double, std::int64_t, std::int64_t>> wait_for_validation(
    const PythonRequester& self, std::int64_t timeout) {
  const auto result = self->wait_for_validation(Milliseconds(timeout));
  if (!result) {
    return std::nullopt;
  }
  return std::make_tuple(result->loss, result->correct, result->counted);
}

}  // namespace

void bind_requester(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<PythonRequester>(module, "Requester")
      .def(py::init<const std::string&, const std::string&, py::object>(), py::arg("node_data"),
           py::arg("root"), py::arg("on_result"))
      .def_property_readonly("address", [](const PythonRequester& self) { return self->address(); })
      .def("start_at", [](const PythonRequester& self, std::int64_t pass) { self->start_at(pass); })
      .def("submit", &submit, py::arg("purpose"), py::arg("inputs"), py::arg("samples"),
           py::arg("epoch"), py::arg("part"), py::arg("parts"), py::arg("weight"),
           py::arg("timeout"))
      .def(
          "wait_until_idle",
          [](const PythonRequester& self, std::int64_t timeout) {
            return self->wait_until_idle(Milliseconds(timeout));
          },
          py::arg("timeout"), Release())
      .def(
          "end_training", [](const PythonRequester& self) { self->end_training(); }, Release())
      .def(
          "end_validation", [](const PythonRequester& self) { self->end_validation(); }, Release())
      .def(
          "wait_for_training",
          [](const PythonRequester& self, std::int64_t timeout) {
            return self->wait_for_training(Milliseconds(timeout));
          },
          py::arg("timeout"), Release())
      .def("wait_for_validation", &wait_for_validation, py::arg("timeout"), Release())
      .def(
          "stop",
          [](const PythonRequester& self, int exit_code, const std::string& reason) {
            self->stop(exit_code, reason);
          },
          Release())
      .def(
          "close",
          [](const PythonRequester& self, std::int64_t timeout) {
            self->close(Milliseconds(timeout));
          },
          py::arg("timeout"), Release());
  // Training passes behind a node's checkpoint; nothing where there is none.
  module.def(
      "read_progress",
      [](const std::string& node_data, const std::string& name) -> std::optional<std::int64_t> {
        const package::NodeConfig node = package::read_node(node_data, name);
        const auto found = provider::read_checkpoint(provider::checkpoint_path(node_data, node));
        return found && found->plan == node.plan ? std::optional(found->passes) : std::nullopt;
      });
}

}  // namespace ravnest::python
