#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace ravnest::cli {

// One word of the command line, and what it does once its options are read.
struct Command {
  CLI::App* app = nullptr;
  std::function<void()> run;
};

Command add_inspect(CLI::App& app);
Command add_clusterize(CLI::App& app);
Command add_simulate(CLI::App& app);
Command add_fuse(CLI::App& app);
Command add_plot(CLI::App& app);

// To standard output, whole; throws Error(kIo) where nobody takes it.
void write_out(const std::string& text);

}  // namespace ravnest::cli
