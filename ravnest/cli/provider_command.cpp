#include <ATen/Context.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "ravnest/base/error.h"
#include "ravnest/cli/closed_in.h"
#include "ravnest/cli/command.h"
#include "ravnest/cli/ending_signals.h"
#include "ravnest/cli/measure.h"
#include "ravnest/cli/provider_flags.h"
#include "ravnest/cli/provider_for_agent.h"
#include "ravnest/provider/display.h"

namespace ravnest::cli {

namespace {

using provider::Display;
using provider::LogLevel;
using provider::Milliseconds;
using provider::Provider;

constexpr int kInterrupted = 130;  // the exit code of a program that Ctrl-C ended

bool is_terminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && kind != nullptr && std::string_view(kind) != "dumb";
}

provider::DisplayOptions to_display(const ProviderFlags& flags) {
  const auto node = package::read_node(flags.options.node_data, flags.options.name);
  return {.name = flags.options.name,
          .role = node.role,
          .level = flags.quiet ? LogLevel::kQuiet : provider::parse_log_level(flags.log_level),
          .is_terminal = is_terminal()};
}

// The display on standard error. Any thread.
class Screen {
 public:
  explicit Screen(const ProviderFlags& flags) : display_(to_display(flags)) {
    display_.expect(flags.epochs, 0);
  }

  // `make(display, now)` says what is to be written.
  template <typename Make>
  void write(const Make& make) {
    const std::lock_guard lock(mutex_);
    std::cerr << make(display_, std::chrono::steady_clock::now()) << std::flush;
  }

  void tick(const Provider& running) {
    const Provider::Status status = running.status();
    write([&](Display& display, auto now) { return display.tick(status, now); });
  }

  provider::ProviderCallbacks callbacks() {
    provider::ProviderCallbacks callbacks;
    callbacks.on_notice = [this](const transport::Notice& notice) {
      write([&](Display& display, auto now) { return display.notice(notice, now); });
    };
    callbacks.on_averaged = [this](const provider::AveragingNews& news) {
      write([&](Display& display, auto) { return display.averaged(news); });
    };
    callbacks.on_checkpoint = [this](const provider::KeptCheckpoint& kept) {
      write([&](Display& display, auto) { return display.kept(kept); });
    };
    callbacks.on_saved = [this](const std::filesystem::path& file, std::int64_t passes) {
      write([&](Display& display, auto) { return display.saved(file, passes); });
    };
    return callbacks;
  }

 private:
  std::mutex mutex_;
  Display display_;
};

// Ends the run when somebody wants an end.
class Interrupts {
 public:
  explicit Interrupts(Provider& running) : thread_([&running] { listen(running); }) {}
  // The signal wakes the thread where nobody has; the run is over, and a second end is none.
  ~Interrupts() { pthread_kill(thread_.native_handle(), SIGTERM); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  static void listen(Provider& running) {
    const sigset_t signals = ending_signals();
    int number = 0;
    sigwait(&signals, &number);
    running.stop(kInterrupted, concat("node_", running.node().id, " was interrupted"));
  }

  std::jthread thread_;
};

void work_until_over(Provider& running, Screen& screen) {
  const Interrupts interrupts(running);
  std::int64_t seen = 0;
  while (!running.is_over()) {
    const std::int64_t ended = running.wait_for_training(seen, kTick);  // throws what ended the run
    if (ended > std::exchange(seen, ended)) {
      screen.write([&](Display& display, auto) { return display.summary(running.status()); });
    }
    screen.tick(running);
  }
  running.wait_for_training(0, Milliseconds(0));
}

// It would wait for ever for batches that nobody can send.
void check_fed(const provider::ProviderOptions& options) {
  if (package::read_node(options.node_data, options.name).stage == 0 && !options.requester) {
    throw_invalid("expected --requester NAME@HOST:PORT, who gives ", options.name,
                  " its batches, since it is the root: got none. A root that reads its data itself "
                  "is a script with ravnest.Node, or a program in C++.");
  }
}

void run_alone(const ProviderFlags& flags) {
  const provider::ProviderOptions options = to_options(flags);
  check_fed(options);
  Screen screen(flags);
  Provider running(options, screen.callbacks());
  running.start();
  try {
    work_until_over(running, screen);
    running.close(kGoodbye);
  } catch (...) {
    try {
      running.close(kGoodbye);
    } catch (const std::exception&) {  // what ended the run is the better answer
    }
    screen.write([](Display& display, auto) { return display.clear(); });
    throw;
  }
}

// Before any thread. What the kernel lacks for it, a sentence, or nothing.
std::string close_in(const ProviderFlags& flags) {
  ClosedInOptions options{.node_data = flags.options.node_data};
  for (const std::string& file : {flags.identity, flags.members}) {
    if (!file.empty()) {
      options.readable.emplace_back(file);
    }
  }
  if (!flags.requester.empty()) {
    options.requester = parse_peer(flags.requester).address;
  }
  if (flags.ram > 0.0) {
    options.ram_gb = flags.ram;
  }
  return close_in(package::read_node(flags.options.node_data, flags.options.name), options);
}

void run_provider(const ProviderFlags& flags) {
  if (flags.measures) {
    return measure_machine(flags.threads);
  }
  // Before any thread, so that signals come to this one alone.
  const sigset_t signals = ending_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (flags.seed >= 0) {
    at::manual_seed(static_cast<std::uint64_t>(flags.seed));
  }
  if (flags.has_agent) {
    std::function<std::string()> closing;
    if (flags.is_closed_in) {
      closing = [&flags] { return close_in(flags); };
    }
    return run_for_agent([&flags] { return to_options(flags); }, closing);
  }
  run_alone(flags);
}

}  // namespace

Command add_provider(CLI::App& app) {
  const auto flags = std::make_shared<ProviderFlags>();
  CLI::App* command = app.add_subcommand(
      "provider", "Run one node of a plan without Python, for a model captured with its loss");
  add_flags(*command, *flags);
  return {.app = command, .run = [flags] { run_provider(*flags); }};
}

}  // namespace ravnest::cli
