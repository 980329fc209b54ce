#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/cli/inspect.h"

namespace ravnest::cli {
namespace {

enum ExitCode : int { kOk = 0, kWorldFailed = 1, kBadInput = 2 };

int fail(ExitCode code, const std::string& sentence) {
  std::cout.flush();
  std::cerr << "ravnest: " << sentence << "\n";
  return code;
}

// Insertions, deletions and changes that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (const char letter : a) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (letter == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string suggestion(const CLI::App& app, std::string_view word) {
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string& name = command->get_name();
    const bool is_near = edit_distance(word, name) <= 2 ||
                         (word.size() >= 2 && std::string_view(name).starts_with(word));
    if (is_near) {
      return " Did you mean '" + name + "'?";
    }
  }
  return " See 'ravnest --help'.";
}

// The first word that could only be a command, if it is none.
const char* find_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    return nullptr;
  }
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  const bool is_known = std::ranges::any_of(
      commands, [argv](const CLI::App* command) { return command->get_name() == argv[1]; });
  return is_known ? nullptr : argv[1];
}

void write_out(const std::string& text) {
  std::cout << text << std::flush;
  if (!std::cout) {
    throw Error(ErrorKind::kIo, "cannot write to standard output.");
  }
}

struct InspectFlags {
  InspectOptions options;
  bool json = false;
  bool text = false;
  std::string optimizer = "adam";
  std::int64_t batch = 0;
};

// CLI11's own validators speak of ranges of floating-point numbers.
CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_good = error == std::errc() && stop == end && value >= least && value <= most;
    return is_good ? std::string()
                   : concat("expected a whole number from ", least, " to ", most, ", got '",
                            printable(text), "'");
  };
  return CLI::Validator(check, "");
}

CLI::Validator optimizer_name() {
  const auto check = [](const std::string& text) {
    return graph::find_optimizer(text)
               ? std::string()
               : concat("expected sgd, momentum or adam, got '", printable(text), "'");
  };
  return CLI::Validator(check, "");
}

CLI::App* add_inspect(CLI::App& app, InspectFlags& flags) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show what a model is made of and what training it costs");
  command->add_option("FILE", flags.options.file, "A .pt2 archive or TorchScript file")
      ->required()
      ->type_name("");
  CLI::Option* json = command->add_flag("--json", flags.json, "Print one JSON object");
  command->add_flag("--text", flags.text, "Print the graph in its text form")->excludes(json);
  command->add_option("--batch", flags.batch, "Batch to count with (default: as captured)")
      ->check(whole_number(1, 1'000'000'000))
      ->type_name("N");
  command->add_option("--optimizer", flags.optimizer, "Whose state to count: sgd, momentum, adam")
      ->check(optimizer_name())
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--top", flags.options.top, "Places and operators to show")
      ->check(whole_number(0, 1000))
      ->type_name("N")
      ->capture_default_str();
  return command;
}

void run_inspect(InspectFlags flags) {
  flags.options.form = flags.json   ? InspectForm::kJson
                       : flags.text ? InspectForm::kText
                                    : InspectForm::kTable;
  flags.options.optimizer = graph::find_optimizer(flags.optimizer).value();
  if (flags.batch > 0) {
    flags.options.batch = flags.batch;
  }
  write_out(inspect(flags.options, detect_style()));
}

int run(int argc, char** argv) {
  CLI::App app{"Ravnest trains one PyTorch model on many unequal machines.", "ravnest"};
  app.set_version_flag("--version", "ravnest " RAVNEST_VERSION, "Print the version and exit");
  app.require_subcommand(1);
  InspectFlags flags;
  const CLI::App* inspect_command = add_inspect(app, flags);
  if (const char* word = find_unknown_command(app, argc, argv)) {
    return fail(kBadInput,
                concat("'", printable(word), "' is not a command.", suggestion(app, word)));
  }
  if (argc < 2) {
    return fail(kBadInput, "expected a command, got none. See 'ravnest --help'.");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      return app.exit(error);
    }
    return fail(kBadInput, concat(error.what(), ". See 'ravnest ",
                                  inspect_command->parsed() ? "inspect " : "", "--help'."));
  }
  run_inspect(std::move(flags));
  return kOk;
}

}  // namespace
}  // namespace ravnest::cli

int main(int argc, char** argv) {
  using namespace ravnest::cli;
  try {
    return run(argc, argv);
  } catch (const std::invalid_argument& error) {
    return fail(kBadInput, error.what());
  } catch (const std::exception& error) {
    return fail(kWorldFailed, error.what());
  }
}
