// dashboard_demo <address> [busy|empty|hostile] [ms per step]: the dashboard of a server that is
// made up. The owner's secret is "demo". Prints where it listens; ends with its standard input.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <iostream>
#include <string>

#include "ravnest/dashboard/http_server.h"
#include "tests/dashboard/demo/made_up.h"

namespace ravnest::dashboard {
namespace {

// False at the end of the input.
bool wait_for_input(int milliseconds) {
  pollfd wanted{.fd = STDIN_FILENO, .events = POLLIN};
  if (::poll(&wanted, 1, milliseconds) <= 0) {
    return true;
  }
  std::array<char, 256> rest{};
  return ::read(STDIN_FILENO, rest.data(), rest.size()) > 0;
}

void run(const std::string& address, const std::string& scene, int milliseconds) {
  MadeUp made_up(scene);
  HttpServer* told = nullptr;
  HttpServer server({.listen = address},
                    {.is_ready = [] { return true; },
                     .view = [&] { return made_up.view(); },
                     .job_view = [&](std::int64_t job) { return made_up.job_view(job); },
                     .metrics = [&] { return made_up.metrics(); },
                     .is_owner = [](std::string_view secret) { return secret == "demo"; },
                     .change =
                         [&](const Wish& wish) {
                           auto why_not = made_up.change(wish);
                           told->notify();
                           return why_not;
                         }});
  told = &server;
  std::cout << "http://" << server.address() << "/" << std::endl;
  while (wait_for_input(milliseconds)) {
    made_up.step();
    server.notify();
  }
}

}  // namespace
}  // namespace ravnest::dashboard

int main(int argc, char** argv) {
  try {
    const std::string address = argc > 1 ? argv[1] : "127.0.0.1:7780";
    ravnest::dashboard::run(address, argc > 2 ? argv[2] : "busy",
                            argc > 3 ? std::stoi(argv[3]) : 1000);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
