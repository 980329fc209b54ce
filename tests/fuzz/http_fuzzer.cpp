// Sends the input to the dashboard as a request. Whatever it is, the connection ends, and nothing
// changes: nobody has logged in.

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>

#include "ravnest/dashboard/connection.h"
#include "ravnest/dashboard/responder.h"
#include "tests/fuzz/finding.h"

namespace ravnest::dashboard {
namespace {

Source make_source() {
  return {.is_ready = [] { return true; },
          .view = [] { return std::string("{}"); },
          .job_view = [](std::int64_t) { return std::optional<std::string>(); },
          .metrics = [] { return std::string(); },
          .is_owner = [](std::string_view) { return false; },
          .change = [](const Wish&) -> std::optional<std::string> { std::abort(); }};
}

void serve(const std::uint8_t* data, std::size_t size) {
  static const HttpOptions kOptions{.listen = "127.0.0.1:7780"};
  static Responder responder("127.0.0.1:7780", kOptions, make_source());
  std::array<int, 2> ends{};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  // All of it fits: more than the largest request is refused after so much.
  const std::size_t all = std::min<std::size_t>(size, 100 * 1024);
  require(::send(ends[0], data, all, MSG_DONTWAIT) == static_cast<ssize_t>(all));
  ::close(ends[0]);
  Connection connection(ends[1], kOptions.limits);
  responder.serve(connection);
  ::close(ends[1]);
}

}  // namespace
}  // namespace ravnest::dashboard

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) {
    ravnest::dashboard::serve(data, size);
  }
  return 0;
}
