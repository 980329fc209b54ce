#include <memory>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/cli/command.h"
#include "ravnest/plot/plot.h"

namespace ravnest::cli {

namespace {

struct PlotFlags {
  std::filesystem::path file;
  std::filesystem::path other;
  std::filesystem::path out = "run.png";
  std::string title;
};

bool says_accuracy(const std::filesystem::path& file) {
  return file.filename().string().find("acc") != std::string::npos;
}

// The names tell where they can; of two that do not, the first has the losses.
plot::RunCurves read_curves(const PlotFlags& flags) {
  const bool is_swapped = says_accuracy(flags.file) && !says_accuracy(flags.other);
  const std::filesystem::path& losses = is_swapped ? flags.other : flags.file;
  const std::filesystem::path& accuracies = is_swapped ? flags.file : flags.other;
  plot::RunCurves curves;
  if (!losses.empty()) {
    curves.losses = plot::read_numbers(losses);
  }
  if (!accuracies.empty()) {
    curves.accuracies = plot::read_numbers(accuracies);
  }
  return curves;
}

void run_plot(const PlotFlags& flags) {
  plot::RunCurves curves = read_curves(flags);
  if (!flags.title.empty()) {
    curves.title = flags.title;
  }
  plot::plot_run(curves, flags.out);
  write_out(concat("Drew ", format_grouped(std::ssize(curves.losses)), " losses and ",
                   format_grouped(std::ssize(curves.accuracies)), " accuracies into ",
                   printable(flags.out.string()), "\n"));
}

}  // namespace

Command add_plot(CLI::App& app) {
  const auto flags = std::make_shared<PlotFlags>();
  CLI::App* command = app.add_subcommand("plot", "Draw the losses and accuracies of a run");
  command
      ->add_option("FILE", flags->file,
                   "losses.txt or val_accuracies.txt: one number a line. A name with 'acc' in it "
                   "is of accuracies; else losses come first")
      ->required()
      ->type_name("");
  command->add_option("OTHER", flags->other, "The other of the two")->type_name("");
  command->add_option("-o,--out", flags->out, "A .png or .svg file")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_option("--title", flags->title, "Above the curves")->type_name("TEXT");
  return {.app = command, .run = [flags] { run_plot(*flags); }};
}

}  // namespace ravnest::cli
