#include "ravnest/planner/simulate/bottleneck.h"

#include <algorithm>
#include <cmath>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"

namespace ravnest::planner {

namespace {

constexpr double kClearly = 1.05;

class Explanation {
 public:
  Explanation(const Bottleneck& bottleneck, const Plan& plan, std::size_t cluster,
              const Simulation& simulation)
      : bottleneck_(bottleneck),
        plan_(plan),
        stages_(plan.clusters[cluster].stages),
        run_(simulation.clusters[cluster]),
        simulation_(simulation) {}

  std::string text() const {
    std::string text = cause();
    text += waiting();
    const double halted = 1 - run_.running_seconds / simulation_.options.seconds;
    if (halted > 0) {
      text += concat(" The cluster stands still ", format_percent(halted),
                     " of the time, because a machine is away.");
    }
    return text;
  }

 private:
  std::string cause() const {
    switch (bottleneck_.kind) {
      case BottleneckKind::kMachine:
        return machine();
      case BottleneckKind::kActivations:
        return link(bottleneck_.stage, bottleneck_.stage + 1, "activations");
      case BottleneckKind::kGradients:
        return link(bottleneck_.stage + 1, bottleneck_.stage, "gradients");
      default:
        return round_trip();
    }
  }

  std::string machine() const {
    const std::string place =
        stages_.size() > 1 ? concat(", the most of the ", stages_.size(), " stages") : "";
    return concat("Node ", id(bottleneck_.stage), " computes ", format_seconds(bottleneck_.seconds),
                  " for every pass", place, "; it is busy ",
                  format_percent(run_.machines[bottleneck_.stage].busy()), " of the time.");
  }

  std::string link(std::size_t from, std::size_t to, const char* what) const {
    const double mbps = link_between(plan_.machine(stages_[from]), plan_.machine(stages_[to])).mbps;
    return concat("The link from node ", id(from), " to node ", id(to), " takes ",
                  format_seconds(bottleneck_.seconds), " for the ", what, " of every pass, at ",
                  format_number(mbps), " Mbps; ", slowest_machine());
  }

  std::string round_trip() const {
    if (simulation_.options.schedule == Schedule::kSync) {
      return concat("Every update waits for a micro-pass to go from node ", id(bottleneck_.stage),
                    " to the leaf and back, which takes ", format_seconds(bottleneck_.seconds),
                    "; ", slowest_machine());
    }
    const std::size_t in_flight = stages_[bottleneck_.stage].passes_in_flight();
    const double trip = bottleneck_.seconds * static_cast<double>(in_flight);
    return concat("A pass takes ", format_seconds(trip), " from node ", id(bottleneck_.stage),
                  " to the leaf and back, and at most ", in_flight, " are in flight: one every ",
                  format_seconds(bottleneck_.seconds), "; ", slowest_machine());
  }

  std::string slowest_machine() const {
    const auto slowest = std::ranges::max_element(stages_, {}, &Stage::compute_seconds);
    return concat("the slowest machine, node ", plan_.machine(*slowest).id, ", computes ",
                  format_seconds(slowest->compute_seconds()), ".");
  }

  // What comes on top of the bottleneck.
  std::string waiting() const {
    const double reached = run_.running_seconds / static_cast<double>(run_.passes);
    if (run_.passes == 0 || reached < kClearly * bottleneck_.seconds) {
      return "";
    }
    const bool is_sync = simulation_.options.schedule == Schedule::kSync;
    return concat(is_sync ? " With filling and emptying the pipeline for every update"
                          : " With forwards and gradients waiting for each other",
                  ", there is a pass every ", format_seconds(reached), ".");
  }

  std::int64_t id(std::size_t stage) const { return plan_.machine(stages_[stage]).id; }

  const Bottleneck& bottleneck_;
  const Plan& plan_;
  const std::vector<Stage>& stages_;
  const ClusterRun& run_;
  const Simulation& simulation_;
};

void take_if_slower(Bottleneck& worst, BottleneckKind kind, std::size_t stage, double seconds) {
  if (seconds > worst.seconds) {
    worst = {.kind = kind, .stage = stage, .seconds = seconds};
  }
}

// From the leaf to the root: of equally long ones, the shortest way is to blame. In `kSync`
// every update waits for one micro-pass to go all the way.
Bottleneck longest_round_trip(const std::vector<StageTimes>& times, Schedule schedule) {
  Bottleneck longest;
  double trip = 0;
  for (std::size_t k = times.size(); k-- > 0;) {
    const StageTimes& stage = times[k];
    trip +=
        stage.forward + stage.backward + stage.activations + stage.gradients + 2 * stage.latency;
    const std::size_t in_flight = schedule == Schedule::kSync ? 1 : stage.in_flight;
    take_if_slower(longest, BottleneckKind::kRoundTrip, k, trip / static_cast<double>(in_flight));
  }
  return longest;
}

}  // namespace

Bottleneck find_bottleneck(const std::vector<StageTimes>& times, const SimulateOptions& options) {
  const auto parts = static_cast<double>(micro_passes(options));
  Bottleneck worst;
  for (std::size_t k = 0; k < times.size(); ++k) {
    take_if_slower(worst, BottleneckKind::kMachine, k,
                   (times[k].forward + times[k].backward) * parts);
  }
  for (std::size_t k = 0; k < times.size(); ++k) {
    take_if_slower(worst, BottleneckKind::kActivations, k, times[k].activations * parts);
    take_if_slower(worst, BottleneckKind::kGradients, k, times[k].gradients * parts);
  }
  const Bottleneck trip = longest_round_trip(times, options.schedule);
  // In an even pipeline all of them are nearly equal, and a machine is the better answer; in
  // `kSync` every update contains a round trip anyway.
  const double factor = options.schedule == Schedule::kSync ? 2.0 : kClearly;
  return trip.seconds > worst.seconds * factor ? trip : worst;
}

std::string explain(const Bottleneck& bottleneck, const Plan& plan, std::size_t cluster,
                    const Simulation& simulation) {
  return Explanation(bottleneck, plan, cluster, simulation).text();
}

namespace {

template <typename Visit>
void for_each_machine(const Simulation& simulation, Visit&& visit) {
  for (const ClusterRun& cluster : simulation.clusters) {
    for (const MachineRun& machine : cluster.machines) {
      visit(machine);
    }
  }
}

void warn_of_memory(const Plan& plan, const Simulation& simulation,
                    std::vector<std::string>& warnings) {
  const MachineRun* worst = nullptr;
  const auto missing = [](const MachineRun& run) { return run.memory_needed - run.memory_given; };
  std::size_t count = 0;
  for_each_machine(simulation, [&](const MachineRun& run) {
    count += run.fits() ? 0 : 1;
    if (!run.fits() && (worst == nullptr || missing(run) > missing(*worst))) {
      worst = &run;
    }
  });
  if (worst != nullptr) {
    const std::string others = count > 1 ? concat(", and so it is with ", count - 1, " more") : "";
    warnings.push_back(concat("Node ", plan.pool[worst->machine].id, " needs ",
                              format_bytes(worst->memory_needed), " for its stage and gives ",
                              format_bytes(worst->memory_given), others, "."));
  }
}

void warn_of_averaging(const Plan& plan, const Simulation& simulation,
                       std::vector<std::string>& warnings) {
  const MachineRun* worst = nullptr;
  for_each_machine(simulation, [&](const MachineRun& run) {
    if (!run.averaging.keeps_up() &&
        (worst == nullptr || run.averaging.round_seconds > worst->averaging.round_seconds)) {
      worst = &run;
    }
  });
  if (worst == nullptr || worst->averaging.interval_seconds <= 0) {
    return;
  }
  const AveragingRun& averaging = worst->averaging;
  std::string remedy;
  if (std::isfinite(averaging.round_seconds)) {
    const double factor = static_cast<double>(simulation.options.reduce_factor) *
                          averaging.round_seconds / averaging.interval_seconds;
    remedy = concat("; a reduce_factor of ", std::llround(std::ceil(factor)), " leaves the time");
  }
  warnings.push_back(concat("A round of averaging takes node ", plan.pool[worst->machine].id, " ",
                            format_seconds(averaging.round_seconds),
                            ", and updates call for one every ",
                            format_seconds(averaging.interval_seconds), remedy, "."));
}

}  // namespace

std::vector<std::string> find_warnings(const Plan& plan, const Simulation& simulation) {
  std::vector<std::string> warnings;
  warn_of_memory(plan, simulation, warnings);
  warn_of_averaging(plan, simulation, warnings);
  return warnings;
}

}  // namespace ravnest::planner
