#include <memory>

#include "ravnest/cli/command.h"
#include "ravnest/cli/inspect.h"
#include "ravnest/cli/validators.h"

namespace ravnest::cli {

namespace {

struct InspectFlags {
  InspectOptions options;
  bool json = false;
  bool text = false;
  std::string optimizer = "adam";
  std::int64_t batch = 0;
};

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

}  // namespace

Command add_inspect(CLI::App& app) {
  const auto flags = std::make_shared<InspectFlags>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show what a model is made of and what training it costs");
  command->add_option("FILE", flags->options.file, "A .pt2 archive or TorchScript file")
      ->required()
      ->type_name("");
  CLI::Option* json = command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_flag("--text", flags->text, "Print the graph in its text form")->excludes(json);
  command->add_option("--batch", flags->batch, "Batch to count with (default: as captured)")
      ->check(whole_number(1, 1'000'000'000))
      ->type_name("N");
  command->add_option("--optimizer", flags->optimizer, "Whose state to count: sgd, momentum, adam")
      ->check(one_of({"sgd", "momentum", "adam"}))
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--top", flags->options.top, "Places and operators to show")
      ->check(whole_number(0, 1000))
      ->type_name("N")
      ->capture_default_str();
  return {.app = command, .run = [flags] { run_inspect(*flags); }};
}

}  // namespace ravnest::cli
