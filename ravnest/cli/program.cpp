#include "ravnest/cli/program.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/base/version.h"

namespace ravnest::cli {

namespace {

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

int run(CLI::App& app, const std::vector<Command>& commands, int argc, char** argv) {
  app.set_version_flag("--version", std::string("ravnest ") + version(),
                       "Print the version and exit");
  app.require_subcommand(1);
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

int fail(ExitCode code, const std::string& sentence) {
  std::cout.flush();
  std::cerr << "ravnest: " << printable(sentence) << "\n";
  return code;
}

int run_commands(CLI::App& app, const std::vector<Command>& commands, int argc, char** argv,
                 const Explain& explain) {
  try {
    return run(app, commands, argc, argv);
  } catch (const std::exception& error) {
    const bool is_input = dynamic_cast<const std::invalid_argument*>(&error) != nullptr;
    const auto code = explain ? explain(error) : std::nullopt;
    fail(is_input ? kBadInput : kWorldFailed, error.what());
    return code.value_or(is_input ? kBadInput : kWorldFailed);
  }
}

void write_out(const std::string& text) {
  std::cout << text << std::flush;
  if (!std::cout) {
    throw Error(ErrorKind::kIo, "cannot write to standard output.");
  }
}

}  // namespace ravnest::cli
