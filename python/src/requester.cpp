#include "requester.h"

#include <torch/csrc/jit/python/pybind_utils.h>

#include "convert.h"
#include "python_call.h"
#include "ravnest/control/identities.h"
#include "ravnest/package/package.h"
#include "ravnest/provider/remote_job.h"
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
    requester_ = std::make_shared<Requester>(std::move(options));
  }
  // One of a job on a server.
  explicit PythonRequester(std::shared_ptr<Requester> requester)
      : requester_(std::move(requester)) {}
  ~PythonRequester() {
    const py::gil_scoped_release release;
    requester_.reset();
  }
  PythonRequester(PythonRequester&&) = default;
  PythonRequester(const PythonRequester&) = delete;
  PythonRequester& operator=(const PythonRequester&) = delete;

  Requester* operator->() const { return requester_.get(); }

 private:
  std::shared_ptr<Requester> requester_;
};

bool request_pass(const PythonRequester& self, const std::string& purpose,
                  const py::sequence& inputs, std::int64_t samples, std::int64_t epoch,
                  std::int64_t part, std::int64_t parts, double weight, std::int64_t timeout) {
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

// What a job trains with, as Python has it.
coordinator::JobOptions to_options(std::int64_t seed, std::int64_t clusters, std::int64_t least,
                                   std::int64_t most, std::int64_t batch,
                                   const std::string& optimizer, const std::string& training,
                                   bool one_result) {
  return {.seed = seed,
          .clusters = clusters,
          .least_providers = least,
          .most_providers = most,
          .batch = batch,
          .optimizer = optimizer,
          .training = training,
          .wants_one_result = one_result};
}

std::unique_ptr<provider::RemoteJob> make_job(const std::string& server, const std::string& token,
                                              const std::string& identity, bool is_local,
                                              bool keeps_learned, py::object on_result) {
  provider::RemoteJobOptions options{.server = server,
                                     .token = token,
                                     .identity = identity,
                                     .is_local = is_local,
                                     .keeps_learned = keeps_learned};
  const Shared callback = share(std::move(on_result));
  options.on_result = [callback](std::int64_t cluster, const PassHeader& header,
                                 const PassResult& result) {
    call_python([&] {
      (*callback)(cluster, header.epoch, header.part, header.parts, header.weight, result.loss);
    });
  };
  const py::gil_scoped_release release;
  return std::make_unique<provider::RemoteJob>(std::move(options));
}

std::optional<coordinator::Standing> find_standing(provider::RemoteJob& job) {
  const py::gil_scoped_release release;
  return job.standing();
}

// A dict, or None.
py::object to_python(const std::optional<coordinator::Standing>& standing) {
  if (!standing) {
    return py::none();
  }
  return py::dict(py::arg("phase") = std::string(coordinator::to_string(standing->phase)),
                  py::arg("reason") = standing->reason, py::arg("clusters") = standing->clusters,
                  py::arg("restored_cluster") = standing->restored_cluster,
                  py::arg("restored") = standing->restored);
}

void bind_job(py::module_& module) {
  using provider::RemoteJob;
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<RemoteJob>(module, "RemoteJob")
      .def(py::init(&make_job), py::arg("server"), py::arg("token"), py::arg("identity"),
           py::arg("is_local"), py::arg("keeps_learned"), py::arg("on_result"))
      .def(
          "submit",
          [](RemoteJob& self, const std::string& program, const std::string& name,
             const std::string& key, std::int64_t seed, std::int64_t clusters, std::int64_t least,
             std::int64_t most, std::int64_t batch, const std::string& optimizer,
             const std::string& training, bool one_result) {
            return self.submit(
                program, name, key,
                to_options(seed, clusters, least, most, batch, optimizer, training, one_result));
          },
          py::arg("program"), py::arg("name"), py::arg("key"), py::arg("seed"), py::arg("clusters"),
          py::arg("least"), py::arg("most"), py::arg("batch"), py::arg("optimizer"),
          py::arg("training"), py::arg("one_result"), Release())
      .def("attach", &RemoteJob::attach, Release())
      .def("standing", [](RemoteJob& self) { return to_python(find_standing(self)); })
      .def(
          "wait_for_change",
          [](RemoteJob& self, std::int64_t seen, std::int64_t timeout) {
            return self.wait_for_change(seen, Milliseconds(timeout));
          },
          Release())
      .def(
          "wait_for_progress",
          [](RemoteJob& self, std::int64_t seen, std::int64_t timeout) {
            return self.wait_for_progress(seen, Milliseconds(timeout));
          },
          Release())
      .def("feeds",
           [](RemoteJob& self) {
             std::map<std::int64_t, std::shared_ptr<Requester>> feeds;
             {
               const py::gil_scoped_release release;
               feeds = self.feeds();
             }
             py::dict result;
             for (auto& [cluster, requester] : feeds) {
               result[py::int_(cluster)] = py::cast(PythonRequester(std::move(requester)));
             }
             return result;
           })
      .def("end_training", &RemoteJob::end_training, Release())
      .def("view", &RemoteJob::view, Release())
      .def("cancel", &RemoteJob::cancel, Release())
      .def(
          "fetch",
          [](RemoteJob& self, std::int64_t job, const std::string& folder) {
            return self.fetch(job, folder);
          },
          Release())
      .def("close", &RemoteJob::close, Release());
}

}  // namespace

void bind_requester(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<PythonRequester>(module, "Requester")
      .def(py::init<const std::string&, const std::string&, py::object>(), py::arg("node_data"),
           py::arg("root"), py::arg("on_result"))
      .def_property_readonly("address", [](const PythonRequester& self) { return self->address(); })
      .def("start_at", [](const PythonRequester& self, std::int64_t pass) { self->start_at(pass); })
      .def("forget_learned", [](const PythonRequester& self) { self->forget_learned(); })
      .def(
          "wait_for_root",
          [](const PythonRequester& self, std::int64_t timeout) {
            return self->wait_for_root(Milliseconds(timeout));
          },
          py::arg("timeout"), Release())
      .def("submitted", [](const PythonRequester& self) { return self->submitted(); })
      .def(
          "has_room", [](const PythonRequester& self) { return self->has_room(); }, Release())
      .def(
          "under_way", [](const PythonRequester& self) { return self->under_way(); }, Release())
      .def("submit", &request_pass, py::arg("purpose"), py::arg("inputs"), py::arg("samples"),
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
          "close",
          [](const PythonRequester& self, std::int64_t timeout) {
            self->close(Milliseconds(timeout));
          },
          py::arg("timeout"), Release());
  module.def("requester_file",
             [](const std::string& server) { return control::requester_file(server).string(); });
  bind_job(module);
}

}  // namespace ravnest::python
