#include <memory>

#include "ravnest/base/table.h"
#include "ravnest/cli/churn.h"
#include "ravnest/cli/command.h"
#include "ravnest/cli/plan_flags.h"
#include "ravnest/cli/validators.h"
#include "ravnest/engine/load.h"
#include "ravnest/planner/report/tables.h"
#include "ravnest/planner/simulate/simulate.h"

namespace ravnest::cli {

namespace {

// What a picture shows: enough passes to see the pipeline fill and run.
constexpr double kPassesInPicture = 24.0;

struct SimulateFlags {
  PlanFlags plan;
  double minutes = 10.0;
  std::string schedule = "async";
  std::string churn;
  std::filesystem::path picture;
  planner::SimulateOptions options;
  bool json = false;
};

double picture_seconds(const planner::Plan& plan, double most) {
  double slowest = 0.0;
  for (const planner::Cluster& cluster : plan.clusters) {
    slowest = std::max(slowest, cluster.bottleneck_seconds);
  }
  return std::min(most, kPassesInPicture * slowest);
}

void run_simulate(SimulateFlags flags) {
  flags.options.churn = parse_churn(flags.churn);
  flags.options.seconds = flags.minutes * 60.0;
  flags.options.seed = flags.plan.seed;
  const std::vector<planner::Machine> pool = planner::read_pool(flags.plan.nodes);
  const graph::Program program = engine::load_program(flags.plan.model);
  const planner::Plan plan = planner::make_plan(program, pool, flags.plan.options());
  const bool is_async = flags.schedule == "async";
  planner::SimulateOptions chosen = flags.options;
  planner::SimulateOptions other = flags.options;
  (is_async ? other : chosen).schedule = planner::Schedule::kSync;
  if (!flags.picture.empty()) {
    chosen.timeline_seconds = picture_seconds(plan, chosen.seconds);
  }
  const planner::Simulation simulation = planner::simulate(plan, chosen);
  if (!flags.picture.empty()) {
    write_file(flags.picture, planner::timeline_svg(plan, simulation));
  }
  write_out(flags.json ? planner::to_json(simulation, plan)
                       : planner::simulation_table(plan, simulation, planner::simulate(plan, other),
                                                   detect_style()));
}

}  // namespace

Command add_simulate(CLI::App& app) {
  const auto flags = std::make_shared<SimulateFlags>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Foretell a run: will it fit, how fast, who is the bottleneck");
  flags->plan.add_to(*command);
  command->add_option("--minutes", flags->minutes, "Time to simulate")
      ->check(number_from(0.001, 16'000.0))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--schedule", flags->schedule, "async or sync; the other is compared with")
      ->check(one_of({"async", "sync"}))
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--micro-batches", flags->options.micro_batches, "Of a pass in sync")
      ->check(whole_number(1, 10'000))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--reduce-factor", flags->options.reduce_factor,
                   "Updates between two averagings of the clusters (0: none)")
      ->check(whole_number(0, 1'000'000'000))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option(
          "--churn", flags->churn,
          "Who is away: '2@60-120' (node, seconds), '2@60' (for good), '3600/300' (all, mean "
          "seconds present/away)")
      ->type_name("LIST");
  command->add_option("--jitter", flags->options.jitter, "Share by which compute times vary")
      ->check(number_from(0.0, 0.999))
      ->type_name("X");
  command->add_option("--picture", flags->picture, "Draw the timeline into this SVG file")
      ->type_name("FILE");
  command->add_flag("--json", flags->json, "Print one JSON object");
  return {.app = command, .run = [flags] { run_simulate(*flags); }};
}

}  // namespace ravnest::cli
