#include "ravnest/planner/simulate/check.h"

#include <cmath>
#include <unordered_set>

#include "ravnest/base/error.h"
#include "ravnest/planner/simulate/bottleneck.h"
#include "ravnest/planner/simulate/pipeline.h"

namespace ravnest::planner {

namespace {

// Some minutes of computation.
constexpr double kMostEvents = 1e10;
constexpr double kMostDepartures = 1e7;

void check_churn(const Plan& plan, const SimulateOptions& options) {
  std::unordered_set<std::int64_t> ids;
  for (const Machine& machine : plan.pool) {
    ids.insert(machine.id);
  }
  for (const Absence& absence : options.churn.absences) {
    if (!ids.contains(absence.machine)) {
      throw_invalid("[planner] expected machines of the pool to leave, got machine ",
                    absence.machine, ", which is not in it.");
    }
    if (!(absence.from >= 0 && absence.to >= absence.from)) {
      throw_invalid("[planner] expected machine ", absence.machine,
                    " to return after it leaves, got away from ", absence.from, " s to ",
                    absence.to, " s.");
    }
  }
  const double present = options.churn.mean_present_seconds;
  const double away = options.churn.mean_away_seconds;
  if (!(present >= 0 && away >= 0 && std::isfinite(present) && std::isfinite(away))) {
    throw_invalid("[planner] expected mean times of 0 s or more, got ", present, " s present and ",
                  away, " s away.");
  }
  const double departures = present > 0 ? options.seconds / present : 0.0;
  if (departures * static_cast<double>(plan.pool.size()) > kMostDepartures) {
    throw_invalid("[planner] expected machines that stay longer: they would leave ", departures,
                  " times each in ", options.seconds, " s.");
  }
}

void check_options(const SimulateOptions& options) {
  if (!(options.seconds > 0 && options.seconds <= kMostSeconds)) {
    throw_invalid("[planner] expected to simulate more than 0 and up to ", kMostSeconds,
                  " seconds, got ", options.seconds, ".");
  }
  if (options.micro_batches == 0) {
    throw_invalid("[planner] expected 1 micro-batch or more, got 0.");
  }
  if (!(options.jitter >= 0 && options.jitter < 1)) {
    throw_invalid("[planner] expected jitter between 0 and 1, got ", options.jitter, ".");
  }
  if (!(options.timeline_seconds >= 0)) {
    throw_invalid("[planner] expected a timeline of 0 s or more, got ", options.timeline_seconds,
                  ".");
  }
}

void check_stage(const Plan& plan, const Stage& stage) {
  RAVNEST_CHECK(stage.machine < plan.pool.size());
  const auto is_time = [](double seconds) { return seconds >= 0 && std::isfinite(seconds); };
  if (!is_time(stage.forward_seconds) || !is_time(stage.backward_seconds)) {
    throw_invalid("[planner] expected a stage's times to be 0 s or more, got ",
                  stage.forward_seconds, " s forward and ", stage.backward_seconds,
                  " s backward on machine ", plan.machine(stage).id, ".");
  }
}

// An upper bound; infinite where passes take no time.
double expected_events(const Plan& plan, const Cluster& cluster, const SimulateOptions& options) {
  const std::size_t parts = micro_passes(options);
  const Bottleneck bottleneck = find_bottleneck(stage_times(plan, cluster, options), options);
  const double passes = options.seconds / bottleneck.seconds;
  const double churn = options.churn.mean_present_seconds;
  const double restarts = churn > 0 ? options.seconds / churn : 0.0;
  return static_cast<double>(cluster.stages.size()) *
         (4 * passes * static_cast<double>(parts) + restarts);
}

void check_plan(const Plan& plan) {
  for (const Cluster& cluster : plan.clusters) {
    RAVNEST_CHECK(!cluster.stages.empty());
    for (const Stage& stage : cluster.stages) {
      check_stage(plan, stage);
    }
  }
  for (const Ring& ring : plan.rings) {
    RAVNEST_CHECK(ring.holders.size() == plan.clusters.size());
    for (std::size_t c = 0; c < ring.holders.size(); ++c) {
      RAVNEST_CHECK(ring.holders[c] < plan.clusters[c].stages.size());
    }
  }
}

void check_size(const Plan& plan, const SimulateOptions& options) {
  double events = 0;
  for (const Cluster& cluster : plan.clusters) {
    events += expected_events(plan, cluster, options);
  }
  if (!(events <= kMostEvents)) {
    throw_invalid("[planner] expected a simulation of at most ", kMostEvents, " events, got ",
                  events, "; simulate fewer seconds, or give the plan its compute times.");
  }
}

}  // namespace

void check_simulation(const Plan& plan, const SimulateOptions& options) {
  check_options(options);
  check_churn(plan, options);
  check_plan(plan);
  check_size(plan, options);
}

}  // namespace ravnest::planner
