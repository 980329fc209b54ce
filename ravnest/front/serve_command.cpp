#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>

#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/base/version.h"
#include "ravnest/front/commands.h"
#include "ravnest/front/signals.h"
#include "ravnest/server/server.h"

namespace ravnest::front {

namespace {

constexpr std::int64_t kUses = 16;
constexpr std::int64_t kMinutes = 60;

// The address of this machine that its network sees: the one that a packet to the outside would
// come from. Nothing is sent.
std::string own_host() {
  const int descriptor = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  ::inet_pton(AF_INET, "192.0.2.1", &address.sin_addr);
  socklen_t size = sizeof(address);
  char text[INET_ADDRSTRLEN] = "127.0.0.1";
  if (::connect(descriptor, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  }
  ::close(descriptor);
  return text;
}

// What others type to reach it.
std::string reached_at(const std::string& listen) {
  const Address address = parse_address(listen);
  const bool is_any = address.host == "0.0.0.0" || address.host == "[::]";
  return concat(is_any ? own_host() : address.host, ":", address.port);
}

void say_ready(server::Server& server, const server::ServerOptions& options) {
  const std::string address = reached_at(server.address());
  std::cout << "ravnest " << version() << " serves at " << address;
  if (!server.http_address().empty()) {
    std::cout << ", dashboard at http://" << server.http_address()
              << " (its buttons ask for what is in " << (options.data / "owner.secret").string()
              << ")";
  }
  std::cout << "\n";
  if (::isatty(STDOUT_FILENO) == 0) {  // a token is for eyes, not for logs
    std::cout << "To lend a machine: ravnest join " << address
              << " --token \"$(ravnest token --data " << options.data.string() << ")\"\n"
              << std::flush;
    return;
  }
  std::cout << "\nTo lend a machine (" << kUses << " may, within " << kMinutes
            << " minutes), run there:\n\n  ravnest join " << address << " --token "
            << server.make_token(coordinator::Role::kProvider, kUses, kMinutes)
            << "\n\nTo train on them, in Python:\n\n  ravnest.fit(model, loader, server=\""
            << address << "\", token=\""
            << server.make_token(coordinator::Role::kRequester, kUses, kMinutes)
            << "\")\n\nFurther tokens: ravnest token --data " << options.data.string()
            << "\nCtrl-C ends the server; providers keep their stages until it is back.\n"
            << std::flush;
}

// A provider has three connections, and each of them a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

void serve(const server::ServerOptions& given) {
  Signals signals;
  raise_descriptor_limit();
  server::ServerOptions options = given;
  std::mutex mutex;
  std::optional<std::string> broken;
  options.on_broken = [&](const std::string& reason) {
    const std::lock_guard lock(mutex);
    broken = reason;
    ::kill(::getpid(), SIGTERM);  // who waits below hears of it
  };
  server::Server server(options);
  say_ready(server, options);
  signals.wait();
  {
    const std::lock_guard lock(mutex);
    if (broken) {
      throw Error(ErrorKind::kIo, *broken);
    }
  }
  std::cout << "ends; what is trained goes on when a server is back in " << options.data.string()
            << "\n"
            << std::flush;
}

}  // namespace

Command add_serve(CLI::App& app) {
  const auto options = std::make_shared<server::ServerOptions>();
  CLI::App* command = app.add_subcommand("serve", "Be the server that brings machines together");
  command->add_option("--listen", options->listen, "Where providers and requesters connect to")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command->add_option("--http", options->http, "Where the dashboard is; empty: nowhere")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command
      ->add_option("--http-host", options->http_hosts,
                   "A further name of the dashboard, behind a proxy; again for each")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_flag("--allow-plain-http", options->allows_plain_http,
                    "Where --http is not of this machine alone: whoever can listen in hears the "
                    "owner's secret");
  command->add_option("--data", options->data, "Its folder: authority, log, files")
      ->type_name("FOLDER")
      ->capture_default_str();
  return {.app = command, .run = [options] { serve(*options); }};
}

}  // namespace ravnest::front
