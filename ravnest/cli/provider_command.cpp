#include <ATen/Context.h>
#include <sys/prctl.h>

#include <csignal>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/cli/command.h"
#include "ravnest/cli/validators.h"
#include "ravnest/provider/provider.h"
#include "ravnest/provider/stopped.h"

namespace ravnest::cli {

namespace {

using provider::Milliseconds;
using provider::Provider;

constexpr int kInterrupted = 130;  // the exit code of a program that Ctrl-C ended
constexpr Milliseconds kGoodbye{5000};

struct Flags {
  provider::ProviderOptions options;
  provider::RuleOptions rule;
  provider::AveragingWords averaging;
  std::string optimizer_options = "{}";
  std::string scheduler;
  std::string scheduler_options = "{}";
  std::string schedule = "async";
  std::string memory = "stash";
  std::string requester;
  double return_within = 60.0;
  double max_norm = 0.0;
  int threads = 0;
  std::int64_t seed = -1;
  bool steps_on_update = false;
  bool ends_with_parent = false;
  bool quiet = false;
  bool lines = false;
};

engine::OptionMap parse_options(const std::string& text, const std::string& flag) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    throw_invalid("expected ", flag, " to be an object such as {\"lr\": 0.01}, got '",
                  printable(text), "'.");
  }
  engine::OptionMap options;
  for (const auto& [key, value] : json.items()) {
    if (value.is_boolean()) {
      options[key] = value.get<bool>();
    } else if (value.is_number()) {
      options[key] = value.get<double>();
    } else if (value.is_string()) {
      options[key] = value.get<std::string>();
    } else if (value.is_array() &&
               std::ranges::all_of(value, [](const auto& item) { return item.is_number(); })) {
      options[key] = value.get<std::vector<double>>();
    } else {
      throw_invalid("expected ", flag, " to hold flags, numbers, words or lists of numbers, got ",
                    printable(value.dump()), " for '", printable(key), "'.");
    }
  }
  return options;
}

// "name@host:port"
transport::Peer parse_peer(const std::string& text) {
  const std::size_t at = text.find('@');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw_invalid("expected --requester NAME@HOST:PORT, got '", printable(text), "'.");
  }
  return {.name = text.substr(0, at), .address = text.substr(at + 1)};
}

provider::ProviderOptions to_options(const Flags& flags) {
  provider::ProviderOptions options = flags.options;
  options.schedule =
      flags.schedule == "sync" ? provider::Schedule::kSync : provider::Schedule::kAsync;
  options.memory =
      flags.memory == "recompute" ? engine::PassMemory::kRecompute : engine::PassMemory::kStash;
  options.averaging = provider::to_options(flags.averaging);
  options.return_within = Milliseconds(static_cast<std::int64_t>(flags.return_within * 1000.0));
  if (flags.threads > 0) {
    options.threads = flags.threads;
  }
  if (!flags.requester.empty()) {
    options.requester = parse_peer(flags.requester);
  }
  provider::RuleOptions rule = flags.rule;
  rule.optimizer_options = parse_options(flags.optimizer_options, "--optimizer-options");
  if (!flags.scheduler.empty()) {
    rule.scheduler = flags.scheduler;
    rule.scheduler_options = parse_options(flags.scheduler_options, "--scheduler-options");
  }
  rule.step_on_epoch = !flags.steps_on_update;
  if (flags.max_norm > 0.0) {
    rule.max_norm = flags.max_norm;
  }
  provider::make_native_rule(rule);  // bad options are found before anything starts
  options.make_rule = [rule] { return provider::make_native_rule(rule); };
  return options;
}

// Bytes that this process holds.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::string describe(const Provider& running, const Provider::Status& status) {
  std::string text =
      concat("node_", running.node().id, " (", running.node().role, "), epoch ", status.epoch + 1,
             ", batch ", status.passes, ", loss ", format_number(status.loss), ", ",
             format_number(status.samples_per_second), " samples/s, delay ", status.loop.delay,
             ", ", format_bytes(resident_bytes()));
  if (status.averagings > 0) {
    text += concat(", averaged ", status.averagings, " times (",
                   format_bytes(static_cast<std::int64_t>(status.averaged_bytes)), " sent)");
  }
  return text;
}

// The line of a provider: in place on a terminal, seldom otherwise; or again and again on standard
// output, for a program that shows it.
class Line {
 public:
  Line(bool is_quiet, bool is_shown_elsewhere)
      : is_quiet_(is_quiet),
        is_shown_elsewhere_(is_shown_elsewhere),
        is_terminal_(isatty(STDERR_FILENO) != 0) {}

  void show(const Provider& running) {
    ++ticks_;
    const bool is_time = is_shown_elsewhere_ || is_terminal_ || ticks_ % 40 == 0;
    if (!is_time || (is_quiet_ && !is_shown_elsewhere_)) {
      return;
    }
    const Provider::Status status = running.status();
    if (status.samples == 0) {
      return;
    }
    const std::string text = describe(running, status);
    if (is_shown_elsewhere_) {
      std::cout << text << std::endl;
      return;
    }
    std::cerr << (is_terminal_ ? "\r\033[K" : "") << text << (is_terminal_ ? "" : "\n")
              << std::flush;
    is_open_ = is_terminal_;
  }

  void say(const std::string& text) {
    if (!is_quiet_) {
      std::cerr << (std::exchange(is_open_, false) ? "\n" : "") << printable(text) << "\n";
    }
  }

 private:
  const bool is_quiet_;
  const bool is_shown_elsewhere_;
  const bool is_terminal_;
  bool is_open_ = false;
  unsigned ticks_ = 0;
};

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

void work_until_over(Provider& running, Line& line) {
  const sigset_t signals = ending_signals();
  while (!running.is_over()) {
    const timespec tick{.tv_sec = 0, .tv_nsec = 250'000'000};
    if (sigtimedwait(&signals, nullptr, &tick) > 0) {
      running.stop(kInterrupted, concat("node_", running.node().id, " was interrupted"));
    }
    line.show(running);
  }
  running.wait_for_training(0, Milliseconds(0));  // throws what ended it
}

void run_provider(const Flags& flags) {
  // Before any thread, so that signals come to this one alone.
  const sigset_t signals = ending_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (flags.ends_with_parent) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
  }
  if (flags.seed >= 0) {
    at::manual_seed(static_cast<std::uint64_t>(flags.seed));
  }
  Line line(flags.quiet, flags.lines);
  provider::ProviderCallbacks callbacks;
  callbacks.on_notice = [&line](const transport::Notice& notice) {
    using transport::NoticeKind;
    if (notice.kind == NoticeKind::kLost || notice.kind == NoticeKind::kFailed ||
        notice.kind == NoticeKind::kRefused) {
      line.say(notice.text);
    }
  };
  Provider running(to_options(flags), callbacks);
  running.start();
  try {
    work_until_over(running, line);
    running.close(kGoodbye);
  } catch (...) {
    try {
      running.close(kGoodbye);
    } catch (const std::exception&) {  // what ended the run is the better answer
    }
    throw;
  }
}

void add_averaging(CLI::App& command, provider::AveragingWords& words) {
  command
      .add_option("--reduce-factor", words.every,
                  "Updates between two averagings with other clusters; 0: at every epoch")
      ->check(whole_number(0, 1'000'000'000))
      ->capture_default_str();
  command.add_option("--averaging", words.averaging, "overlapped or blocking")
      ->check(one_of({"overlapped", "blocking"}))
      ->capture_default_str();
  command.add_flag("--average-optim", words.with_rule, "Average the optimizer's state, too");
  command.add_option("--averaging-codec", words.codec, "none, fp16, bf16 or int8, and +zstd")
      ->capture_default_str();
  command.add_option("--robust", words.robust, "none, or trimmed for a trimmed mean")
      ->check(one_of({"none", "trimmed"}))
      ->capture_default_str();
  command
      .add_option("--reduce", words.reduce,
                  "Who moves the values: grpc, or gloo on a network that is trusted")
      ->check(one_of({"grpc", "gloo"}))
      ->capture_default_str();
  command.add_option("--outer", words.outer, "mean, or nesterov for DiLoCo's step")
      ->check(one_of({"mean", "nesterov"}))
      ->capture_default_str();
  command.add_option("--outer-lr", words.outer_rate, "Of nesterov")->capture_default_str();
  command.add_option("--outer-momentum", words.outer_momentum, "Of nesterov")
      ->capture_default_str();
  command.add_option("--streams", words.streams, "Parts of the stage that are averaged in turn")
      ->capture_default_str();
  command
      .add_option("--patience", words.patience,
                  "Seconds that a fast cluster waits for a slow one to average")
      ->capture_default_str();
}

}  // namespace

Command add_provider(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  provider::ProviderOptions& options = flags->options;
  CLI::App* command = app.add_subcommand(
      "provider", "Run one node of a plan without Python, for a model captured with its loss");
  command->add_option("--name", options.name, "The node, such as node_1")
      ->required()
      ->type_name("NODE");
  command->add_option("--node-data", options.node_data, "Where the plan is")
      ->type_name("FOLDER")
      ->capture_default_str();
  command
      ->add_option("--requester", flags->requester,
                   "Who feeds the root: NAME@HOST:PORT (for the root alone)")
      ->type_name("PEER");
  command
      ->add_option("--optimizer", flags->rule.optimizer,
                   "sgd, adam, adamw, nadam, rmsprop or adagrad")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--optimizer-options", flags->optimizer_options, "As torch.optim has them")
      ->type_name("JSON")
      ->capture_default_str();
  command->add_option("--scheduler", flags->scheduler, "StepLR, OneCycleLR, …")->type_name("NAME");
  command->add_option("--scheduler-options", flags->scheduler_options, "As torch has them")
      ->type_name("JSON")
      ->capture_default_str();
  command->add_flag("--step-on-update", flags->steps_on_update,
                    "Step the scheduler at every update, not at every epoch");
  command->add_option("--schedule", flags->schedule, "async or sync")
      ->check(one_of({"async", "sync"}))
      ->capture_default_str();
  command->add_option("--memory", flags->memory, "stash or recompute")
      ->check(one_of({"stash", "recompute"}))
      ->capture_default_str();
  command->add_option("--update-frequency", options.update_frequency, "Passes of an update")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--codec", options.codec, "none, fp16, bf16 or int8, and +zstd")
      ->capture_default_str();
  command->add_option("--max-norm", flags->max_norm, "Clip the stage's gradients; 0: do not")
      ->check(number_from(0.0, 1e30));
  command
      ->add_option("--warmup-updates", flags->rule.warmup_updates,
                   "Updates of caution with late gradients")
      ->check(whole_number(0, 1'000'000'000));
  command->add_option("--compensation", options.compensation, "Strength of DC-ASGD")
      ->check(number_from(0.0, 1e6));
  command->add_flag("--predict-weights", options.predict_weights,
                    "Forward with the weights expected at the backward");
  add_averaging(*command, flags->averaging);
  command->add_option("--threads", flags->threads, "Of this provider; 0: its share of the cores")
      ->check(whole_number(0, 4096));
  command->add_option("--checkpoint-every", options.checkpoint_every, "Updates; 0: never")
      ->check(whole_number(0, 1'000'000'000))
      ->capture_default_str();
  command->add_flag("!--no-resume", options.resume, "Begin anew, whatever was cut off");
  command->add_flag("--keep-stopped", options.keeps_stopped,
                    "Keep a checkpoint when the run is stopped on purpose, too");
  command->add_flag("--save", options.save, "Write the weights when training has ended");
  command->add_option("--losses", options.loss_file, "Gets the loss of every batch (leaf)")
      ->type_name("FILE");
  command
      ->add_option("--accuracies", options.accuracy_file,
                   "Gets the accuracy of every validation (leaf)")
      ->type_name("FILE");
  command
      ->add_option("--return-within", flags->return_within,
                   "Seconds that a lost neighbour is waited for")
      ->check(number_from(0.0, 1e6))
      ->capture_default_str();
  command->add_flag("--trusted-network", options.is_network_trusted,
                    "Allow addresses beyond this machine without encryption");
  command->add_option("--seed", flags->seed, "Of dropout and the like")
      ->check(whole_number(0, std::numeric_limits<std::int64_t>::max()));
  command->add_flag("--with-parent", flags->ends_with_parent, "End when the parent process does");
  command->add_flag("--quiet", flags->quiet, "Say nothing");
  command->add_flag("--lines", flags->lines,
                    "Print how it goes to standard output four times a second");
  return {.app = command, .run = [flags] { run_provider(*flags); }};
}

}  // namespace ravnest::cli
