#include "local_server.h"

#include <mutex>
#include <optional>
#include <string>

#include "ravnest/server/server.h"

namespace py = pybind11;

namespace ravnest::python {

namespace {

constexpr std::int64_t kMinutes = 60;

// The intermediary server inside this process, for this machine alone. Without a dashboard.
class LocalServer {
 public:
  explicit LocalServer(const std::string& data)
      : server_(std::make_unique<server::Server>(server::ServerOptions{
            .listen = "127.0.0.1:0",
            .http = "",
            .data = data,
            .on_broken = [this](const std::string& reason) { set_broken(reason); }})) {}

  const std::string& address() const { return server_->address(); }
  std::string make_token(const std::string& role, std::int64_t uses) {
    return server_->make_token(
        role == "provider" ? coordinator::Role::kProvider : coordinator::Role::kRequester, uses,
        kMinutes);
  }
  // Why it cannot go on, if it cannot.
  std::optional<std::string> broken() const {
    const std::lock_guard lock(mutex_);
    return broken_;
  }
  void close() { server_.reset(); }

 private:
  void set_broken(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    broken_ = reason;
  }

  mutable std::mutex mutex_;  // guards broken_
  std::optional<std::string> broken_;
  std::unique_ptr<server::Server> server_;
};

}  // namespace

void bind_local_server(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<LocalServer>(module, "LocalServer")
      .def(py::init<const std::string&>(), py::arg("data"), Release())
      .def_property_readonly("address", &LocalServer::address)
      .def("make_token", &LocalServer::make_token, py::arg("role"), py::arg("uses"), Release())
      .def("broken", &LocalServer::broken)
      .def("close", &LocalServer::close, Release());
}

}  // namespace ravnest::python
