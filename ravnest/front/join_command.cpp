#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>

#include "ravnest/agent/agent.h"
#include "ravnest/agent/machine.h"
#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/cli/validators.h"
#include "ravnest/front/commands.h"
#include "ravnest/front/owner.h"
#include "ravnest/front/signals.h"
#include "ravnest/trust/member.h"

namespace ravnest::front {

namespace {

constexpr std::chrono::milliseconds kTick{250};
constexpr std::chrono::milliseconds kLeavingTick{20};

struct JoinFlags {
  agent::AgentOptions options;
  std::string token;
  double ram = 0.0;
  std::int64_t threads = 0;
  std::string device = "cpu";
};

// A line that is written over on a terminal, between sentences that stay.
class Screen {
 public:
  void tell(const std::string& text) {
    const std::lock_guard lock(mutex_);
    std::cout << (is_terminal_ ? "\r\033[K" : "") << printable(text) << "\n" << std::flush;
  }
  void show(const std::string& text) {
    if (is_terminal_) {
      const std::lock_guard lock(mutex_);
      std::cout << "\r\033[K" << printable(text) << std::flush;
    }
  }

 private:
  const bool is_terminal_ = ::isatty(STDOUT_FILENO) != 0;
  std::mutex mutex_;
};

std::string own_name() {
  char text[256] = "";
  ::gethostname(text, sizeof text - 1);
  std::string name = text;
  std::erase_if(name, [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '.' &&
           letter != '_' && letter != '-';
  });
  return name.empty() ? "provider" : name.substr(0, 48);
}

void join(const JoinFlags& flags) {
  Signals signals;
  if (flags.options.is_local) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  }
  Screen screen;
  agent::AgentOptions options = flags.options;
  parse_address(options.server);
  trust::check_machine_name(options.name);
  if (!flags.token.empty()) {
    options.token = flags.token;
  }
  if (flags.ram > 0.0) {
    options.ram_gb = flags.ram;
  }
  if (flags.threads > 0) {
    options.threads = flags.threads;
  }
  options.program = {agent::find_program("ravnest-engine").string(), "provider"};
  options.tell = [&screen](const std::string& text) { screen.tell(text); };
  agent::Agent agent(options);
  if (!options.is_local) {
    remember_server(options.data, options.server);
  }
  const auto& measured = agent.measured();
  screen.tell(concat("this machine lends ", format_number(measured.ram_gb), " GB, ",
                     measured.threads, " threads, ", format_number(measured.gflops),
                     " GFLOP/s; the server is ", format_number(measured.latency_ms), " ms and ",
                     format_number(measured.mbps), " Mbit/s away"));
  bool is_leaving = false;
  while (agent.tick()) {
    screen.show(agent.describe());
    const int signal = signals.wait(is_leaving ? kLeavingTick : kTick);
    if (signal == 0) {
      continue;
    }
    if (signal == SIGUSR1) {
      agent.keep_checkpoint();
      continue;
    }
    if (is_leaving && signal == SIGHUP) {
      continue;  // a terminal that is closed may say so twice
    }
    if (is_leaving) {
      screen.tell("left at once");
      std::_Exit(130);
    }
    is_leaving = true;
    agent.leave();
    screen.tell("hands its stage over and leaves; Ctrl-C again leaves at once");
  }
  screen.tell("left");
}

}  // namespace

Command add_join(CLI::App& app) {
  const auto flags = std::make_shared<JoinFlags>();
  flags->options.name = own_name();
  CLI::App* command = app.add_subcommand("join", "Lend this machine to a server's pool");
  command->add_option("server", flags->options.server, "Where the server is")
      ->required()
      ->type_name("HOST:PORT");
  command->add_option("--token", flags->token, "From `ravnest token`; needed the first time")
      ->envname("RAVNEST_TOKEN")
      ->type_name("TOKEN");
  command->add_option("--name", flags->options.name, "What people call this machine")
      ->capture_default_str();
  command->add_option("--data", flags->options.data, "Its folder: identity, files of models")
      ->type_name("FOLDER")
      ->capture_default_str();
  command->add_option("--ram", flags->ram, "Lend at most so many GB; 0: what is free")
      ->check(cli::number_from(0.0, 1e6));
  command->add_option("--threads", flags->threads, "Lend so many; 0: all")
      ->check(cli::whole_number(0, 4096));
  command->add_option("--disk", flags->options.disk_gb, "Keep at most so many GB of fetched files")
      ->check(cli::number_from(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--device", flags->device, "cpu")->check(cli::one_of({"cpu"}));
  command->add_flag("--local", flags->options.is_local,
                    "For a server of the program that starts this: nothing is measured or "
                    "encrypted, and it ends with that program");
  command->add_option("--host", flags->options.host,
                      "Where others reach this machine; default: as the server sees it");
  command->add_option("--port", flags->options.port, "Where its stage listens; 0: a free one")
      ->check(cli::whole_number(0, 65535));
  return {.app = command, .run = [flags] { join(*flags); }};
}

}  // namespace ravnest::front
