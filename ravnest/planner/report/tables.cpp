#include "ravnest/planner/report/tables.h"

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/planner/report/report.h"

namespace ravnest::planner {

namespace {

// A pace this near to the slowest stage or link is theirs.
constexpr double kNearly = 1.05;
constexpr std::size_t kMostClusters = 12;
constexpr std::size_t kMostSpares = 8;
constexpr std::size_t kBarWidth = 8;

std::string plural(std::size_t count, std::string_view noun) {
  return concat(format_grouped(static_cast<std::int64_t>(count)), " ", noun, count == 1 ? "" : "s");
}

std::string rate(const std::optional<double>& samples, double passes) {
  return samples ? format_number(*samples) + " samples/s" : format_number(passes) + " passes/s";
}

std::string arrow(const Style& style) { return style.unicode ? "→" : "->"; }

std::string memory_cell(const Plan& plan, const Stage& stage) {
  return concat(format_bytes(stage.memory.total()), " of ", plan.machine(stage).ram_gb, " GB");
}

std::string plan_title(const Plan& plan, const Style& style) {
  std::size_t machines = 0;
  for (const Cluster& cluster : plan.clusters) {
    machines += cluster.stages.size();
  }
  std::string text =
      concat(plural(machines, "machine"), " in ", plural(plan.clusters.size(), "cluster"), ", ",
             plural(plan.rings.size(), "ring"));
  if (const auto samples = samples_per_second(plan); samples && plan.speeds_known) {
    text += concat(", about ", format_number(*samples), " samples/s");
  }
  return painted(text, Paint::kBold, style) +
         (plan.batch ? concat(", batch ", *plan.batch) : std::string()) +
         concat(", ", graph::name_of(plan.optimizer), "\n");
}

void add_stage_row(const Plan& plan, std::size_t cluster, std::size_t index, Table& table) {
  const Stage& stage = plan.clusters[cluster].stages[index];
  const bool is_last = index + 1 == plan.clusters[cluster].stages.size();
  const auto share = flops_share(plan, stage);
  table.add_row(
      {plan.machine(stage).address, std::to_string(plan.machine(stage).id),
       concat(cluster, " ", role_of(plan.clusters[cluster], index)),
       format_bytes(stage.parameter_bytes), memory_cell(plan, stage),
       share ? format_percent(*share) : "",
       is_last || !plan.costs_known ? "" : format_bytes(stage.forward_bytes + stage.backward_bytes),
       std::to_string(stage.delay)});
}

std::string bottleneck_line(const Plan& plan, std::size_t index, const Style& style) {
  const Cluster& cluster = plan.clusters[index];
  const auto node = [&](const Stage& of) { return concat("node ", plan.machine(of).id); };
  const double pace = pass_seconds(plan.pool, cluster);
  std::string who = "the way to the leaf and back";
  if (pace <= cluster.bottleneck_seconds * kNearly) {
    const Slowest slowest = slowest_of(cluster);
    const Stage& stage = cluster.stages[slowest.stage];
    who = slowest.is_link ? concat("the link ", node(stage), " ", arrow(style), " ",
                                   node(cluster.stages[slowest.stage + 1]))
                          : node(stage);
  }
  return concat("  cluster ", index, ": a pass every ", format_seconds(pace), ", bound by ", who,
                "\n");
}

std::string spare_lines(const Plan& plan) {
  std::string text;
  for (std::size_t i = 0; i < std::min(plan.spares.size(), kMostSpares); ++i) {
    const Machine& machine = plan.pool[plan.spares[i].machine];
    text += concat("  node ", machine.id, " (", machine.address,
                   ") has no stage: ", plan.spares[i].reason, "\n");
  }
  if (plan.spares.size() > kMostSpares) {
    text += concat("  and ", plural(plan.spares.size() - kMostSpares, "more machine"),
                   " without a stage\n");
  }
  return text;
}

std::string assumptions(const Plan& plan) {
  std::string text;
  if (!plan.costs_known) {
    text +=
        "  Captured without example inputs: parameter sizes decided, and memory counts the "
        "weights alone.\n";
  }
  if (!plan.speeds_known) {
    text +=
        "  No machine gives a \"speed\" (GFLOP/s): work is spread by RAM, and times are guesses.\n";
  }
  return text;
}

// How much of the model a machine could take before, what it waits for now.
std::string idle_cell(const MachineRun& machine) {
  std::size_t most = 0;
  for (std::size_t i = 1; i < kIdleReasons; ++i) {
    most = machine.idle[i] > machine.idle[most] ? i : most;
  }
  if (machine.idle[most] < 0.005) {
    return "";
  }
  std::string name(name_of(static_cast<Idle>(most)));
  std::ranges::replace(name, '_', ' ');
  return concat(format_percent(machine.idle[most]), " ", name);
}

void add_machine_row(const Plan& plan, std::size_t cluster, const MachineRun& machine,
                     const Style& style, Table& table) {
  const std::int64_t sent =
      machine.activations.nbytes + machine.gradients.nbytes + machine.averaging.nbytes;
  table.add_row({plan.pool[machine.machine].address, std::to_string(plan.pool[machine.machine].id),
                 std::to_string(cluster), bar(machine.busy(), kBarWidth, style),
                 format_percent(machine.busy()), idle_cell(machine), format_bytes(sent),
                 concat(format_fixed(machine.mean_delay, 1), "/", machine.max_delay),
                 concat(format_bytes(machine.memory_needed), machine.fits() ? "" : " TOO MUCH")});
}

std::string comparison(const Simulation& chosen, const Simulation& other) {
  if (chosen.passes_per_second <= 0 || other.passes_per_second <= 0) {
    return "  no pass was finished\n";
  }
  const double factor = chosen.passes_per_second / other.passes_per_second;
  return concat("  ", name_of(other.options.schedule), ": ",
                rate(other.samples_per_second, other.passes_per_second), " (",
                name_of(chosen.options.schedule), " is ", format_number(factor), " times that)\n");
}

}  // namespace

std::string plan_table(const Plan& plan, const Style& style) {
  Table table({{},
               {Align::kRight},
               {},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight}});
  table.add_header({"machine", "node", "cluster", "weights", "memory",
                    plan.measured ? "time" : "FLOPs", "per pass", "delay"});
  const std::size_t shown = std::min(plan.clusters.size(), kMostClusters);
  std::string waits;
  for (std::size_t cluster = 0; cluster < shown; ++cluster) {
    for (std::size_t stage = 0; stage < plan.clusters[cluster].stages.size(); ++stage) {
      add_stage_row(plan, cluster, stage, table);
    }
    waits += plan.costs_known && plan.speeds_known ? bottleneck_line(plan, cluster, style) : "";
  }
  std::string text = plan_title(plan, style) + table.to_string(style) + waits;
  if (shown < plan.clusters.size()) {
    text += concat("  and ", plural(plan.clusters.size() - shown, "more cluster"), "\n");
  }
  return text + spare_lines(plan) + assumptions(plan);
}

std::string simulation_table(const Plan& plan, const Simulation& chosen, const Simulation& other,
                             const Style& style) {
  Table table({{},
               {Align::kRight},
               {Align::kRight},
               {Align::kLeft, Paint::kBar},
               {Align::kRight},
               {},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight}});
  table.add_header(
      {"machine", "node", "cluster", "busy", "", "waits for", "sent", "delay mean/max", "memory"});
  const std::size_t shown = std::min(chosen.clusters.size(), kMostClusters);
  std::string reasons;
  for (std::size_t cluster = 0; cluster < shown; ++cluster) {
    for (const MachineRun& machine : chosen.clusters[cluster].machines) {
      add_machine_row(plan, cluster, machine, style, table);
    }
    reasons +=
        concat("  cluster ", cluster, ": ", chosen.clusters[cluster].bottleneck.reason, "\n");
  }
  std::string text = painted(concat(name_of(chosen.options.schedule), ": ",
                                    rate(chosen.samples_per_second, chosen.passes_per_second)),
                             Paint::kBold, style) +
                     concat(" over ", format_number(chosen.options.seconds / 60.0), " minutes, ",
                            !plan.costs_known ? "costs not known"
                            : chosen.fits()   ? "it fits"
                                              : "it does NOT fit",
                            "\n") +
                     comparison(chosen, other) + table.to_string(style) + reasons;
  if (shown < chosen.clusters.size()) {
    text += concat("  and ", plural(chosen.clusters.size() - shown, "more cluster"), "\n");
  }
  for (const std::string& warning : chosen.warnings) {
    text += "  " + warning + "\n";
  }
  return text + assumptions(plan);
}

}  // namespace ravnest::planner
