#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/cli/command.h"

namespace ravnest::cli {

namespace {

enum ExitCode : int { kOk = 0, kWorldFailed = 1, kBadInput = 2 };

int fail(ExitCode code, const std::string& sentence) {
  std::cout.flush();
  std::cerr << "ravnest: " << printable(sentence) << "\n";
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

std::string suggestion(const std::vector<Command>& commands, std::string_view word) {
  for (const Command& command : commands) {
    const std::string& name = command.app->get_name();
    const bool is_near = edit_distance(word, name) <= 2 ||
                         (word.size() >= 2 && std::string_view(name).starts_with(word));
    if (is_near) {
      return " Did you mean '" + name + "'?";
    }
  }
  return " See 'ravnest --help'.";
}

// The first word that could only be a command, if it is none.
const char* find_unknown_command(const std::vector<Command>& commands, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    return nullptr;
  }
  const bool is_known = std::ranges::any_of(
      commands, [argv](const Command& command) { return command.app->get_name() == argv[1]; });
  return is_known ? nullptr : argv[1];
}

int run(int argc, char** argv) {
  CLI::App app{"Ravnest trains one PyTorch model on many unequal machines.", "ravnest"};
  app.set_version_flag("--version", "ravnest " RAVNEST_VERSION, "Print the version and exit");
  app.require_subcommand(1);
  const std::vector<Command> commands{add_inspect(app), add_clusterize(app), add_simulate(app),
                                      add_fuse(app), add_plot(app)};
  if (const char* word = find_unknown_command(commands, argc, argv)) {
    return fail(kBadInput,
                concat("'", printable(word), "' is not a command.", suggestion(commands, word)));
  }
  if (argc < 2) {
    return fail(kBadInput, "expected a command, got none. See 'ravnest --help'.");
  }
  const auto chosen = [&] {
    return std::ranges::find_if(commands, [](const Command& each) { return each.app->parsed(); });
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      return app.exit(error);
    }
    const auto command = chosen();
    return fail(kBadInput, concat(error.what(), ". See 'ravnest ",
                                  command == commands.end() ? "" : command->app->get_name() + " ",
                                  "--help'."));
  }
  chosen()->run();
  return kOk;
}

}  // namespace

void write_out(const std::string& text) {
  std::cout << text << std::flush;
  if (!std::cout) {
    throw Error(ErrorKind::kIo, "cannot write to standard output.");
  }
}

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
