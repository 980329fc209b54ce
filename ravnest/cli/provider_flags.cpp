#include "ravnest/cli/provider_flags.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/cli/validators.h"
#include "ravnest/package/json_file.h"
#include "ravnest/trust/identity.h"

namespace ravnest::cli {

namespace {

using provider::Milliseconds;

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

transport::Members read_members(const std::filesystem::path& file) {
  const package::Json json = package::read_json(file);
  transport::Members members;
  for (const auto& [name, id] : package::Field(json, file).entries()) {
    members.emplace(name, id.text());
  }
  return members;
}

void add_training(CLI::App& command, ProviderFlags& flags) {
  command
      .add_option("--optimizer", flags.rule.optimizer,
                  "sgd, adam, adamw, nadam, rmsprop or adagrad")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--optimizer-options", flags.optimizer_options, "As torch.optim has them")
      ->type_name("JSON")
      ->capture_default_str();
  command.add_option("--scheduler", flags.scheduler, "StepLR, OneCycleLR, …")->type_name("NAME");
  command.add_option("--scheduler-options", flags.scheduler_options, "As torch has them")
      ->type_name("JSON")
      ->capture_default_str();
  command.add_flag("--step-on-update", flags.steps_on_update,
                   "Step the scheduler at every update, not at every epoch");
  command.add_option("--schedule", flags.schedule, "async or sync")
      ->check(one_of({"async", "sync"}))
      ->capture_default_str();
  command.add_option("--memory", flags.memory, "stash or recompute")
      ->check(one_of({"stash", "recompute"}))
      ->capture_default_str();
  command.add_option("--update-frequency", flags.options.update_frequency, "Passes of an update")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--codec", flags.options.codec, "none, fp16, bf16 or int8, and +zstd")
      ->capture_default_str();
  command.add_option("--max-norm", flags.max_norm, "Clip the stage's gradients; 0: do not")
      ->check(number_from(0.0, 1e30));
  command
      .add_option("--warmup-updates", flags.rule.warmup_updates,
                  "Updates of caution with late gradients")
      ->check(whole_number(0, 1'000'000'000));
  command.add_option("--compensation", flags.options.compensation, "Strength of DC-ASGD")
      ->check(number_from(0.0, 1e6));
  command.add_flag("--predict-weights", flags.options.predict_weights,
                   "Forward with the weights expected at the backward");
}

void add_files(CLI::App& command, ProviderFlags& flags) {
  command.add_option("--checkpoint-every", flags.options.checkpoint_every, "Updates; 0: never")
      ->check(whole_number(0, 1'000'000'000))
      ->capture_default_str();
  command
      .add_option("--checkpoints", flags.options.checkpoint_folder,
                  "Also gets every checkpoint, as <passes>.safetensors")
      ->type_name("FOLDER");
  command.add_flag("!--no-resume", flags.options.resume, "Begin anew, whatever was cut off");
  command.add_flag("--from-ring", flags.options.from_ring,
                   "Join a run without a checkpoint, with the weights of other clusters");
  command.add_flag("--save", flags.options.save, "Write the weights when training has ended");
  command.add_option("--losses", flags.options.loss_file, "Gets the loss of every batch (leaf)")
      ->type_name("FILE");
  command
      .add_option("--accuracies", flags.options.accuracy_file,
                  "Gets the accuracy of every validation (leaf)")
      ->type_name("FILE");
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

void add_trust(CLI::App& command, ProviderFlags& flags) {
  command
      .add_option("--identity", flags.identity, "Who this machine is: connections are encrypted")
      ->type_name("FILE");
  command
      .add_option("--members", flags.members,
                  "With an identity, who may bear which name: {\"node_0\": \"<member>\", …}")
      ->type_name("FILE");
  command
      .add_option("--job", flags.options.job,
                  "Whom all peers have to be of; without it, the same plan")
      ->type_name("ID");
  command.add_flag("--trusted-network", flags.options.is_network_trusted,
                   "Allow addresses beyond this machine without encryption");
}

void add_words(CLI::App& command, ProviderFlags& flags) {
  command.add_flag("--quiet", flags.quiet, "Say nothing but what ends the run badly");
  command
      .add_option(
          "--log-level", flags.log_level,
          "debug (every connection, averaging, checkpoint), info (progress, waits), warning "
          "(what went wrong) or error (what failed)")
      ->check(one_of({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  command.add_option("--epochs", flags.epochs, "Of the run, for the time left; 0: not known")
      ->check(whole_number(0, 1'000'000'000));
}

}  // namespace

transport::Peer parse_peer(const std::string& text) {
  const std::size_t at = text.find('@');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw_invalid("expected --requester NAME@HOST:PORT, got '", printable(text), "'.");
  }
  return {.name = text.substr(0, at), .address = text.substr(at + 1)};
}

provider::ProviderOptions to_options(const ProviderFlags& flags) {
  provider::ProviderOptions options = flags.options;
  if (options.name.empty()) {
    throw_invalid("expected --name NODE, got none.");
  }
  options.schedule =
      flags.schedule == "sync" ? provider::Schedule::kSync : provider::Schedule::kAsync;
  options.memory =
      flags.memory == "recompute" ? engine::PassMemory::kRecompute : engine::PassMemory::kStash;
  options.averaging = provider::to_options(flags.averaging);
  options.return_within = Milliseconds(static_cast<std::int64_t>(flags.return_within * 1000.0));
  if (flags.has_agent) {
    options.return_within = transport::kForEver;
    options.ends_alone = true;
  }
  if (!flags.identity.empty()) {
    options.identity = trust::read_identity(flags.identity, std::chrono::system_clock::now());
  }
  if (!flags.members.empty()) {
    options.members = read_members(flags.members);
  }
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

void add_flags(CLI::App& command, ProviderFlags& flags) {
  command.add_option("--name", flags.options.name, "The node, such as node_1")->type_name("NODE");
  command.add_option("--listen", flags.options.listen,
                     "HOST:PORT to listen at, where that is not what the plan has");
  command.add_option("--node-data", flags.options.node_data, "Where the plan is")
      ->type_name("FOLDER")
      ->capture_default_str();
  command
      .add_option("--requester", flags.requester,
                  "Who feeds the root: NAME@HOST:PORT (for the root alone)")
      ->type_name("PEER");
  add_training(command, flags);
  add_averaging(command, flags.averaging);
  add_files(command, flags);
  add_trust(command, flags);
  add_words(command, flags);
  command.add_option("--threads", flags.threads, "Of this provider; 0: its share of the cores")
      ->check(whole_number(0, 4096));
  command
      .add_option("--return-within", flags.return_within,
                  "Seconds that a lost neighbour is waited for")
      ->check(number_from(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--seed", flags.seed, "Of dropout and the like")
      ->check(whole_number(0, std::numeric_limits<std::int64_t>::max()));
  command.add_flag("--agent", flags.has_agent,
                   "Driven by another program: words on standard input, JSON on standard output");
  command.add_flag(
      "--sandbox", flags.is_closed_in,
      "Close this process in first: its own folder and its peers' ports, nothing else");
  command.add_option("--ram", flags.ram, "With --sandbox: GB that it may take; 0: no limit")
      ->check(number_from(0.0, 1e6));
  command.add_flag("--measure", flags.measures,
                   "Only print how fast this machine multiplies matrices");
}

}  // namespace ravnest::cli
