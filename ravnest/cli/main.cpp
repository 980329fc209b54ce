#include "ravnest/cli/command.h"
#include "ravnest/cli/program.h"
#include "ravnest/provider/stopped.h"

int main(int argc, char** argv) {
  using namespace ravnest::cli;
  CLI::App app{"What of ravnest needs libtorch: models, plans, stages.", "ravnest"};
  const std::vector<Command> commands{add_inspect(app), add_clusterize(app), add_simulate(app),
                                      add_fuse(app),    add_plot(app),       add_provider(app)};
  return run_commands(app, commands, argc, argv, [](const std::exception& error) {
    const auto* stopped = dynamic_cast<const ravnest::provider::StoppedRun*>(&error);
    return stopped != nullptr ? std::optional(stopped->exit_code()) : std::nullopt;
  });
}
