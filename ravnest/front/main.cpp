#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "ravnest/agent/machine.h"
#include "ravnest/base/error.h"
#include "ravnest/cli/program.h"
#include "ravnest/front/commands.h"

namespace ravnest::front {

namespace {

[[noreturn]] void become(const std::string& program, char** argv) {
  ::execvp(program.c_str(), argv);
  throw Error(ErrorKind::kIo,
              concat("'", program, "' could not be started: ", std::strerror(errno), "."));
}

[[noreturn]] void run_engine(char** argv) {
  become(agent::find_program("ravnest-engine").string(), argv);
}

[[noreturn]] void run_submit(char** argv) {
  std::string program = agent::find_program("python3").string();
  std::string flag = "-m";
  std::string module = "ravnest.submit";
  std::vector<char*> words{program.data(), flag.data(), module.data()};
  for (char** word = argv + 2; *word != nullptr; ++word) {
    words.push_back(*word);
  }
  words.push_back(nullptr);
  become(program, words.data());
}

// What other programs do: ravnest-engine, beside this one, has libtorch; a requester's models and
// data are Python's.
struct Elsewhere {
  const char* name;
  const char* description;
  void (*run)(char** argv);
};
constexpr std::array<Elsewhere, 7> kElsewhere = {{
    {"submit", "Train what a file describes", run_submit},
    {"inspect", "Show what a model is made of", run_engine},
    {"clusterize", "Cut a model for a pool of machines", run_engine},
    {"simulate", "Predict how a plan trains", run_engine},
    {"fuse", "Put the trained parts of a model together", run_engine},
    {"plot", "Draw losses and accuracies", run_engine},
    {"provider", "Run one node of a plan without Python", run_engine},
}};

int run(int argc, char** argv) {
  CLI::App app{"Ravnest trains one PyTorch model on many unequal machines.", "ravnest"};
  std::vector<Command> commands{add_serve(app),  add_token(app),  add_join(app),   add_pause(app),
                                add_resume(app), add_remove(app), add_status(app), add_logs(app),
                                add_cancel(app), add_fetch(app),  add_pool(app),   add_doctor(app)};
  for (const Elsewhere& each : kElsewhere) {
    commands.push_back({.app = app.add_subcommand(each.name, each.description), .run = [] {}});
    if (argc > 1 && std::string_view(argv[1]) == each.name) {
      commands.back().run = [argv, run = each.run] { run(argv); };
      commands.back().app->prefix_command();
      commands.back().app->set_help_flag();
      argc = 2;  // the rest is for that program to read
    }
  }
  return cli::run_commands(app, commands, argc, argv);
}

}  // namespace

}  // namespace ravnest::front

int main(int argc, char** argv) { return ravnest::front::run(argc, argv); }
