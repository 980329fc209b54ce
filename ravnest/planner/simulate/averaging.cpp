#include "ravnest/planner/simulate/averaging.h"

#include <algorithm>
#include <cmath>

namespace ravnest::planner {

namespace {

struct RoundCost {
  double seconds = 0.0;
  double nbytes = 0.0;  // that each holder sends
};

const Machine& holder(const Plan& plan, const Ring& ring, std::size_t cluster) {
  return plan.machine(plan.clusters[cluster].stages[ring.holders[cluster]]);
}

RoundCost round_cost(const Plan& plan, const Ring& ring) {
  const std::size_t count = ring.holders.size();
  const auto steps = static_cast<double>(2 * (count - 1));
  const double segment = static_cast<double>(ring.nbytes) / static_cast<double>(count);
  double step_seconds = 0;
  for (std::size_t cluster = 0; cluster < count; ++cluster) {
    const Link link =
        link_between(holder(plan, ring, cluster), holder(plan, ring, (cluster + 1) % count));
    const double carry = segment > 0 ? segment * 8 / (link.mbps * 1e6) : 0.0;
    step_seconds = std::max(step_seconds, carry + link.latency_ms / 1e3);
  }
  return {.seconds = steps * step_seconds, .nbytes = steps * segment};
}

// Of the slowest cluster that has come to update at all.
double seconds_per_update(const Simulation& simulation) {
  double slowest = 0;
  for (const ClusterRun& cluster : simulation.clusters) {
    if (cluster.passes > 0) {
      slowest = std::max(slowest, cluster.running_seconds / static_cast<double>(cluster.passes));
    }
  }
  return slowest;
}

// `nbytes` are those of one round.
void count_rounds(const ClusterRun& cluster, double interval, double nbytes, AveragingRun& run) {
  run.interval_seconds = interval;
  const double pace = std::max(interval, run.round_seconds);
  if (interval > 0 && std::isfinite(pace)) {
    run.rounds = static_cast<std::uint64_t>(cluster.running_seconds / pace);
  }
  run.nbytes = std::llround(static_cast<double>(run.rounds) * nbytes);
}

// The holders of a ring begin a round together: when the last of those drawn calls for it.
void call_together(const Ring& ring, std::vector<TimelineRow>& rows) {
  std::vector<double> latest;
  const auto visit_calls = [&](auto&& visit) {
    for (TimelineRow& row : rows) {
      if (ring.holders[row.cluster] == row.stage) {
        latest.resize(std::max(latest.size(), row.averaging.size()));
        for (std::size_t i = 0; i < row.averaging.size(); ++i) {
          visit(row.averaging[i].from, latest[i]);
        }
      }
    }
  };
  visit_calls([](double call, double& last) { last = std::max(last, call); });
  visit_calls([](double& call, double last) { call = last; });
}

// Until the machine leaves; nothing where it is away already.
Span while_present(Span span, const TimelineRow& row) {
  for (const Span& away : row.away) {
    if (away.to > span.from) {
      span.to = std::min(span.to, std::max(away.from, span.from));
    }
  }
  return span;
}

// The row holds the moments at which rounds are called for. One begins when the slowest
// cluster has come as far, and the round before is over.
void draw_rounds(TimelineRow& row, const AveragingRun& run, double window) {
  std::vector<Span> rounds;
  for (std::size_t i = 0; i < row.averaging.size(); ++i) {
    const double slowest = static_cast<double>(i + 1) * run.interval_seconds;
    double from = std::max(row.averaging[i].from, slowest);
    if (!rounds.empty()) {
      if (from < rounds.back().from) {
        continue;  // that round has yet to begin, and will do for this one
      }
      from = std::max(from, rounds.back().to);
    }
    const Span round{.from = from, .to = std::min(from + run.round_seconds, window)};
    if (const Span present = while_present(round, row); present.to > present.from) {
      rounds.push_back(present);
    }
  }
  row.averaging = std::move(rounds);
}

void add_costs(const Plan& plan, Simulation& simulation) {
  std::vector<std::vector<double>> nbytes;  // of a round, by cluster and stage
  for (const Cluster& cluster : plan.clusters) {
    nbytes.emplace_back(cluster.stages.size(), 0.0);
  }
  for (const Ring& ring : plan.rings) {
    const RoundCost cost = round_cost(plan, ring);
    for (std::size_t c = 0; c < ring.holders.size(); ++c) {
      simulation.clusters[c].machines[ring.holders[c]].averaging.round_seconds += cost.seconds;
      nbytes[c][ring.holders[c]] += cost.nbytes;
    }
  }
  const double interval =
      static_cast<double>(simulation.options.reduce_factor) * seconds_per_update(simulation);
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    ClusterRun& cluster = simulation.clusters[c];
    for (std::size_t k = 0; k < cluster.machines.size(); ++k) {
      count_rounds(cluster, interval, nbytes[c][k], cluster.machines[k].averaging);
    }
  }
}

void draw_averaging(const Plan& plan, Simulation& simulation) {
  std::vector<TimelineRow>& rows = simulation.timeline.rows;
  for (const Ring& ring : plan.rings) {
    call_together(ring, rows);
  }
  for (TimelineRow& row : rows) {
    const MachineRun& machine = simulation.clusters[row.cluster].machines[row.stage];
    draw_rounds(row, machine.averaging, simulation.timeline.seconds);
  }
}

}  // namespace

void add_averaging(const Plan& plan, Simulation& simulation) {
  if (simulation.options.reduce_factor > 0 && plan.clusters.size() > 1) {
    add_costs(plan, simulation);
    draw_averaging(plan, simulation);
    return;
  }
  for (TimelineRow& row : simulation.timeline.rows) {
    row.averaging.clear();
  }
}

}  // namespace ravnest::planner
