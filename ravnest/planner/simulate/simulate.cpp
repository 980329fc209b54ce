#include "ravnest/planner/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "ravnest/planner/simulate/averaging.h"
#include "ravnest/planner/simulate/bottleneck.h"
#include "ravnest/planner/simulate/check.h"
#include "ravnest/planner/simulate/churn.h"
#include "ravnest/planner/simulate/pipeline.h"

namespace ravnest::planner {

namespace {

std::int64_t memory_needed(const Stage& stage, const SimulateOptions& options) {
  if (options.schedule == Schedule::kAsync) {
    return stage.memory.total();
  }
  // Nothing is updated under a pass in flight, and a micro-pass keeps its part alone.
  const StageMemory& memory = stage.memory;
  const auto parts = static_cast<std::int64_t>(options.micro_batches);
  const auto limit = static_cast<std::int64_t>(stage.passes_in_flight());
  return memory.weights + memory.gradients + memory.optimizer + memory.temporary / parts +
         memory.activations / limit * std::min(limit, parts) / parts;
}

class ClusterSimulation {
 public:
  ClusterSimulation(const Plan& plan, const SimulateOptions& options, std::size_t index)
      : plan_(plan), options_(options), index_(index), cluster_(plan.clusters[index]) {
    std::vector<Gap> all;
    for (const Stage& stage : cluster_.stages) {
      away_.push_back(find_gaps(plan.machine(stage), options));
      all.insert(all.end(), away_.back().begin(), away_.back().end());
    }
    halts_ = merged(std::move(all));
  }

  ClusterRun run(std::span<TimelineRow> rows) {
    const std::vector<StageTimes> times = stage_times(plan_, cluster_, options_);
    Pipeline pipeline(times, options_, random_stream(options_.seed, RandomUse::kJitter, index_),
                      rows);
    ClusterRun run;
    run.lost = run_between_halts(pipeline);
    run.passes = pipeline.passes();
    run.running_seconds = to_seconds(end_ - total(halts_));
    run.passes_per_second = static_cast<double>(run.passes) / options_.seconds;
    if (plan_.batch) {
      run.samples_per_second = run.passes_per_second * static_cast<double>(*plan_.batch);
    }
    run.bottleneck = find_bottleneck(times, options_);
    for (std::size_t k = 0; k < cluster_.stages.size(); ++k) {
      run.machines.push_back(machine_run(pipeline, k));
    }
    for (std::size_t k = 0; k < rows.size(); ++k) {
      draw_absence(rows[k], away_[k]);
    }
    return run;
  }

 private:
  std::uint64_t run_between_halts(Pipeline& pipeline) {
    Time at{};
    std::uint64_t lost = 0;
    for (const Gap& halt : halts_) {
      if (halt.from > at) {
        lost += pipeline.run(at, halt.from);
      }
      at = halt.to;
    }
    if (at < end_) {
      pipeline.run(at, end_);
    }
    return lost;
  }

  MachineRun machine_run(const Pipeline& pipeline, std::size_t k) const {
    const Stage& stage = cluster_.stages[k];
    const StageTally& tally = pipeline.tally(k);
    MachineRun run{.machine = stage.machine,
                   .updates = tally.updates,
                   .forward = share(tally.forward),
                   .backward = share(tally.backward),
                   .max_delay = tally.max_delay,
                   .memory_needed = memory_needed(stage, options_),
                   .memory_given = plan_.machine(stage).ram_bytes()};
    for (std::size_t i = 0; i < kIdleReasons; ++i) {
      run.idle[i] = share(tally.idle[i]);
    }
    const Time away = total(away_[k]);
    run.idle[static_cast<std::size_t>(Idle::kAway)] = share(away);
    run.idle[static_cast<std::size_t>(Idle::kHalted)] = share(total(halts_) - away);
    run.activations = {.nbytes = sent(tally.activations, stage.forward_bytes),
                       .busy = share(tally.activations_on_link)};
    if (k > 0) {
      run.gradients = {.nbytes = sent(tally.gradients, cluster_.stages[k - 1].backward_bytes),
                       .busy = share(tally.gradients_on_link)};
    }
    if (tally.updates > 0) {
      run.mean_delay = static_cast<double>(tally.delays) / static_cast<double>(tally.updates);
    }
    return run;
  }

  std::int64_t sent(std::uint64_t messages, std::int64_t nbytes) const {
    return std::llround(static_cast<double>(messages) * static_cast<double>(nbytes) /
                        static_cast<double>(micro_passes(options_)));
  }

  void draw_absence(TimelineRow& row, const std::vector<Gap>& gaps) const {
    for (const Gap& gap : gaps) {
      const Span span{.from = to_seconds(gap.from), .to = to_seconds(gap.to)};
      if (span.from < options_.timeline_seconds) {
        row.away.push_back({span.from, std::min(span.to, options_.timeline_seconds)});
      }
    }
  }

  double share(Time time) const {
    return static_cast<double>(time.count()) / static_cast<double>(end_.count());
  }

  const Plan& plan_;
  const SimulateOptions& options_;
  const std::size_t index_;
  const Cluster& cluster_;
  const Time end_ = to_time(options_.seconds);
  std::vector<std::vector<Gap>> away_;  // by stage
  std::vector<Gap> halts_;
};

// Rows for whole clusters while there is room; the first may be cut short.
std::vector<TimelineRow> make_rows(const Plan& plan) {
  std::vector<TimelineRow> rows;
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    const std::size_t count = plan.clusters[c].stages.size();
    if (c > 0 && rows.size() + count > kTimelineRows) {
      break;
    }
    for (std::size_t k = 0; k < std::min(count, kTimelineRows); ++k) {
      rows.push_back({.cluster = c, .stage = k});
    }
  }
  return rows;
}

std::span<TimelineRow> rows_of(std::vector<TimelineRow>& rows, std::size_t cluster) {
  const auto found = std::ranges::equal_range(rows, cluster, {}, &TimelineRow::cluster);
  return {found.begin(), found.end()};
}

void add_totals(Simulation& simulation) {
  for (const ClusterRun& cluster : simulation.clusters) {
    simulation.passes_per_second += cluster.passes_per_second;
    if (cluster.samples_per_second) {
      simulation.samples_per_second =
          simulation.samples_per_second.value_or(0) + *cluster.samples_per_second;
    }
  }
}

}  // namespace

bool Simulation::fits() const {
  return std::ranges::all_of(clusters, [](const ClusterRun& cluster) {
    return std::ranges::all_of(cluster.machines, &MachineRun::fits);
  });
}

Simulation simulate(const Plan& plan, const SimulateOptions& options) {
  check_simulation(plan, options);
  Simulation simulation{.options = options};
  simulation.options.timeline_seconds = std::min(options.timeline_seconds, options.seconds);
  simulation.timeline.seconds = simulation.options.timeline_seconds;
  if (simulation.timeline.seconds > 0) {
    simulation.timeline.rows = make_rows(plan);
  }
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    ClusterSimulation cluster(plan, simulation.options, c);
    simulation.clusters.push_back(cluster.run(rows_of(simulation.timeline.rows, c)));
  }
  add_totals(simulation);
  add_averaging(plan, simulation);
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    Bottleneck& bottleneck = simulation.clusters[c].bottleneck;
    bottleneck.reason = explain(bottleneck, plan, c, simulation);
  }
  simulation.warnings = find_warnings(plan, simulation);
  return simulation;
}

}  // namespace ravnest::planner
