#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/cli/command.h"

namespace ravnest::cli {

enum ExitCode : int { kOk = 0, kWorldFailed = 1, kBadInput = 2 };

// Says the sentence on standard error, and gives the code back.
int fail(ExitCode code, const std::string& sentence);

// The exit code of an error that has one of its own.
using Explain = std::function<std::optional<int>(const std::exception&)>;

// Reads the command line, runs the command that it names, and gives the exit code. Errors are one
// sentence on standard error.
int run_commands(CLI::App& app, const std::vector<Command>& commands, int argc, char** argv,
                 const Explain& explain = {});

}  // namespace ravnest::cli
