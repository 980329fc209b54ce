#include "display.h"

#include "ravnest/provider/display.h"

namespace py = pybind11;

namespace ravnest::python {

namespace {

using provider::Display;
using provider::LogLevel;
using provider::Provider;
using transport::Notice;
using transport::NoticeKind;

Display::TimePoint now() { return std::chrono::steady_clock::now(); }

void bind_notice(py::module_& module) {
  py::enum_<NoticeKind>(module, "NoticeKind")
      .value("WAITING", NoticeKind::kWaiting)
      .value("OPEN", NoticeKind::kOpen)
      .value("LOST", NoticeKind::kLost)
      .value("CLOSED", NoticeKind::kClosed)
      .value("FAILED", NoticeKind::kFailed)
      .value("REFUSED", NoticeKind::kRefused)
      .value("NEWS", NoticeKind::kNews)
      .value("WARNING", NoticeKind::kWarning);
  py::class_<Notice>(module, "Notice")
      .def(py::init([](NoticeKind kind, std::string peer, std::string channel, std::string text) {
             return Notice{.kind = kind,
                           .peer = std::move(peer),
                           .channel = std::move(channel),
                           .text = std::move(text)};
           }),
           py::arg("kind"), py::arg("peer"), py::arg("channel"), py::arg("text"))
      .def_readonly("kind", &Notice::kind)
      .def_readonly("peer", &Notice::peer)
      .def_readonly("channel", &Notice::channel)
      .def_readonly("text", &Notice::text);
}

Display make_display(const std::string& name, const std::string& role, const std::string& level,
                     bool is_quiet, bool is_terminal) {
  const LogLevel wanted = provider::parse_log_level(level);
  return Display({.name = name,
                  .role = role,
                  .level = is_quiet ? LogLevel::kQuiet : wanted,
                  .is_terminal = is_terminal});
}

}  // namespace

void bind_display(py::module_& module) {
  bind_notice(module);
  py::class_<Display>(module, "Display")
      .def(py::init(&make_display), py::arg("name"), py::arg("role"), py::arg("level"),
           py::arg("is_quiet"), py::arg("is_terminal"))
      .def("expect", &Display::expect, py::arg("epochs"), py::arg("batches"))
      .def("is_due", [](const Display& self) { return self.is_due(now()); })
      .def("tick",
           [](Display& self, const Provider::Status& status) { return self.tick(status, now()); })
      .def("notice", [](Display& self, const Notice& notice) { return self.notice(notice, now()); })
      .def("averaged",
           [](Display& self, std::int64_t round, double seconds, std::size_t nbytes,
              std::vector<std::string> members) {
             return self.averaged(
                 {.round = round,
                  .members = std::move(members),
                  .nbytes = nbytes,
                  .duration = std::chrono::milliseconds(std::llround(seconds * 1e3))});
           })
      .def("kept", [](Display& self, const std::string& file,
                      std::int64_t passes) { return self.kept({.passes = passes, .file = file}); })
      .def("saved", [](Display& self, const std::string& file,
                       std::int64_t passes) { return self.saved(file, passes); })
      .def("summary", &Display::summary)
      .def("say",
           [](Display& self, const std::string& text) { return self.say(LogLevel::kInfo, text); })
      .def("clear", &Display::clear);
}

}  // namespace ravnest::python
