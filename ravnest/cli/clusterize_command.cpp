#include <memory>

#include "ravnest/base/table.h"
#include "ravnest/cli/command.h"
#include "ravnest/cli/plan_flags.h"
#include "ravnest/engine/load.h"
#include "ravnest/package/package.h"
#include "ravnest/planner/report/picture.h"
#include "ravnest/planner/report/report.h"
#include "ravnest/planner/report/tables.h"

namespace ravnest::cli {

namespace {

struct ClusterizeFlags {
  PlanFlags plan;
  std::filesystem::path out = "node_data";
  std::filesystem::path picture;
  bool json = false;
  bool dry_run = false;
};

void run_clusterize(const ClusterizeFlags& flags) {
  const std::vector<planner::Machine> pool = planner::read_pool(flags.plan.nodes);
  const graph::Program program = engine::load_program(flags.plan.model);
  const planner::Plan plan = planner::make_plan(program, pool, flags.plan.options());
  if (!flags.dry_run) {
    package::write_plan(program, plan, flags.out);
  }
  if (!flags.picture.empty()) {
    write_file(flags.picture, planner::plan_svg(plan));
  }
  write_out(flags.json ? planner::plan_json(plan)
                       : planner::reference_log(plan) + "\n\n" +
                             planner::plan_table(plan, detect_style()));
}

}  // namespace

Command add_clusterize(CLI::App& app) {
  const auto flags = std::make_shared<ClusterizeFlags>();
  CLI::App* command = app.add_subcommand(
      "clusterize", "Group machines into clusters, cut the model for each, write the plan");
  flags->plan.add_to(*command);
  command->add_option("--out", flags->out, "Where the plan goes")
      ->type_name("FOLDER")
      ->capture_default_str();
  command->add_option("--picture", flags->picture, "Draw the plan into this SVG file")
      ->type_name("FILE");
  command->add_flag("--json", flags->json, "Print the plan as one JSON object");
  command->add_flag("--dry-run", flags->dry_run, "Write no plan, only show it");
  return {.app = command, .run = [flags] { run_clusterize(*flags); }};
}

}  // namespace ravnest::cli
