#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "ravnest/base/error.h"
#include "ravnest/planner/grouping/grouping.h"
#include "ravnest/planner/grouping/points.h"
#include "ravnest/planner/model_costs.h"
#include "ravnest/planner/partition/partition.h"
#include "ravnest/planner/plan.h"
#include "ravnest/planner/rings.h"
#include "ravnest/planner/simulate/simulate.h"

namespace ravnest::planner {

namespace {

using Members = std::vector<std::size_t>;  // machines, by index into the pool

constexpr double kGb = 1e9;
// Seconds to simulate when the number of clusters is to be found.
constexpr double kTrialSeconds = 60.0;
// Cluster counts to try then, at most.
constexpr std::size_t kMostTrials = 16;

std::string gb(double bytes) {
  std::ostringstream out;
  out.precision(3);
  out << bytes / kGb << " GB";
  return std::move(out).str();
}

// A cluster as cut, with the machines that found no place in it.
struct Fitted {
  Members members;  // in the order of the stages
  Partition partition;
};

// Plans a pool for a model.
class Planner {
 public:
  Planner(const graph::Program& program, const std::vector<Machine>& pool,
          const PlanOptions& options)
      : pool_(pool),
        graph_(program.graph),
        options_(options),
        gflops_(planning_gflops(pool)),
        costs_(program, options) {}

  Plan run() {
    Members usable = usable_machines();
    if (usable.empty()) {
      refuse();
    }
    if (std::holds_alternative<AutoClusters>(options_.clusters)) {
      return best_count(usable);
    }
    if (const auto* count = std::get_if<std::size_t>(&options_.clusters)) {
      return with_count(usable, *count);
    }
    return as_many_as_fit(usable);
  }

 private:
  // Plans that exist ------------------------------------------------------------------

  Plan as_many_as_fit(const Members& usable) {
    const std::size_t least = std::min(kLeastClusterSize, usable.size());
    std::size_t count = most_clusters(usable, std::max<std::size_t>(usable.size() / least, 1));
    for (; count > 1; count = std::min(count - 1, count * 19 / 20)) {
      if (auto plan = try_count(usable, count, least)) {
        return std::move(*plan);
      }
    }
    return single(usable);
  }

  Plan with_count(const Members& usable, std::size_t count) {
    if (count < 1 || count > usable.size()) {
      throw_invalid("[planner] expected between 1 and ", usable.size(),
                    " clusters, as many machines can hold a stage, got ", count, ".");
    }
    if (count == 1) {
      return single(usable);
    }
    const Members chosen = without_surplus(usable, count);
    for (std::size_t least = std::min(kLeastClusterSize, chosen.size() / count); least > 0;
         --least) {
      if (auto plan = try_count(chosen, count, least)) {
        return std::move(*plan);
      }
    }
    refuse(count);
  }

  Plan best_count(const Members& usable) {
    std::optional<Plan> best;
    double best_rate = 0.0;
    for (const std::size_t count : counts_to_try(usable)) {
      auto plan = count == 1 ? try_single(usable) : try_count(usable, count, 1);
      if (!plan) {
        continue;
      }
      const double rate =
          simulate(*plan, {.seconds = kTrialSeconds, .seed = options_.seed}).passes_per_second;
      if (!best || rate > best_rate) {
        best = std::move(plan);
        best_rate = rate;
      }
    }
    if (!best) {
      refuse();
    }
    return std::move(*best);
  }

  // All of them in a small pool; then the whole range in equal factors.
  std::vector<std::size_t> counts_to_try(const Members& usable) {
    const std::size_t most = most_clusters(usable, usable.size());
    std::vector<std::size_t> counts;
    for (std::size_t i = 0; i < std::min(most, kMostTrials); ++i) {
      const double share =
          most <= kMostTrials ? 0.0 : static_cast<double>(i) / static_cast<double>(kMostTrials - 1);
      const auto count =
          most <= kMostTrials
              ? i + 1
              : static_cast<std::size_t>(std::lround(std::pow(static_cast<double>(most), share)));
      if (counts.empty() || counts.back() != count) {
        counts.push_back(count);
      }
    }
    return counts;
  }

  std::optional<Plan> try_count(const Members& usable, std::size_t count, std::size_t least) {
    for (const double margin : {1.0, 1.15, 1.4}) {
      const GroupingProblem problem = grouping_problem(usable, count, least, margin);
      const Grouping grouping =
          group_machines(problem, {.seed = options_.seed,
                                   .population = options_.population,
                                   .generations = options_.generations,
                                   .check_interrupted = options_.check_interrupted});
      if (grouping_cost(problem, grouping) >= kInfeasible) {
        return std::nullopt;
      }
      std::vector<Members> groups(count);
      for (std::size_t i = 0; i < usable.size(); ++i) {
        groups[grouping[i]].push_back(usable[i]);
      }
      std::vector<Fitted> fitted;
      for (const Members& members : groups) {
        auto fit = try_fit(members);
        if (!fit) {
          break;
        }
        fitted.push_back(std::move(*fit));
      }
      if (fitted.size() == count) {
        return assemble(fitted, {});
      }
    }
    return std::nullopt;
  }

  Plan single(const Members& usable) {
    auto plan = try_single(usable);
    if (!plan) {
      refuse();
    }
    return std::move(*plan);
  }

  // The machines with the most RAM, as many as the model has parts for.
  Members without_surplus(const Members& usable, std::size_t clusters) {
    const std::size_t most = clusters * most_stages();
    if (usable.size() <= most) {
      return usable;
    }
    Members chosen = usable;
    std::ranges::stable_sort(chosen, std::greater{},
                             [&](std::size_t machine) { return pool_[machine].ram_gb; });
    for (std::size_t i = most; i < chosen.size(); ++i) {
      useless_.push_back(
          {.machine = chosen[i], .reason = "the model has fewer parts than there are machines"});
    }
    chosen.resize(most);
    std::ranges::sort(chosen);
    return chosen;
  }

  std::size_t most_stages() const {
    const std::size_t parameters = costs_.parameters().size();
    return parameters == 0 ? costs_.size() : std::min(costs_.size(), parameters);
  }

  // One cluster of all, without the smallest machines where they stand in the way.
  std::optional<Plan> try_single(const Members& usable) {
    Members members = without_surplus(usable, 1);
    std::vector<Spare> spares;
    while (!members.empty()) {
      if (auto fit = try_fit(members)) {
        return assemble({std::move(*fit)}, std::move(spares));
      }
      // Of equals the last, so that the first nodes stay.
      const auto smallest = std::prev(
          std::ranges::min_element(members.rbegin(), members.rend(), {}, [&](std::size_t machine) {
            return pool_[machine].ram_gb;
          }).base());
      spares.push_back({.machine = *smallest,
                        .reason = members.size() > costs_.size()
                                      ? "the model has fewer parts than there are machines"
                                      : "its RAM is too small for a stage beside the others"});
      members.erase(smallest);
    }
    return std::nullopt;
  }

  // Machines ---------------------------------------------------------------------------

  Members usable_machines() {
    Members usable;
    const double least = least_stage_bytes();
    for (std::size_t machine = 0; machine < pool_.size(); ++machine) {
      if (static_cast<double>(pool_[machine].ram_bytes()) >= least) {
        usable.push_back(machine);
      } else {
        useless_.push_back({.machine = machine,
                            .reason = concat("its RAM holds no part of the model (the smallest "
                                             "needs ",
                                             gb(least), ")")});
      }
    }
    return usable;
  }

  double least_stage_bytes() const {
    double least = static_cast<double>(costs_.memory(0, costs_.size(), 1).total());
    for (std::size_t first = 0; first < costs_.size(); ++first) {
      std::size_t last = first + 1;
      while (last < costs_.size() &&
             costs_.first_parameter(last) == costs_.first_parameter(first)) {
        ++last;
      }
      least = std::min(least, static_cast<double>(costs_.memory(first, last, 1).total()));
    }
    return least;
  }

  GroupingProblem grouping_problem(const Members& usable, std::size_t count, std::size_t least,
                                   double margin) {
    return {.points = make_points(pool_, gflops_, usable),
            .groups = count,
            .least_size = least,
            .needed_gb = [this, margin](std::size_t size) { return margin * needed_gb(size); }};
  }

  // RAM that a cluster of equal machines needs; the model's own where none would do.
  double needed_gb(std::size_t size) {
    const auto known = needed_gb_.find(size);
    return known != needed_gb_.end() ? known->second
                                     : needed_gb_.emplace(size, find_needed_gb(size)).first->second;
  }

  double find_needed_gb(std::size_t size) const {
    double high = static_cast<double>(costs_.memory(0, costs_.size(), size).total());
    double low = 0.0;
    if (size > costs_.size() || !fits_equal(size, high)) {
      return high * static_cast<double>(size) / kGb;
    }
    while (high - low > 1e-3 * high) {
      const double middle = (low + high) / 2;
      (fits_equal(size, middle) ? high : low) = middle;
    }
    return high * static_cast<double>(size) / kGb;
  }

  bool fits_equal(std::size_t size, double ram_bytes) const {
    const PartitionProblem problem{
        .workers = std::vector<Worker>(
            size, {.ram_bytes = static_cast<std::int64_t>(ram_bytes), .gflops = 1.0}),
        .mbps = std::vector<double>(size * size, 1e9)};
    return fits(costs_, problem);
  }

  // The most clusters that the pool's RAM could serve.
  std::size_t most_clusters(const Members& usable, std::size_t most) {
    double ram_gb = 0.0;
    for (const std::size_t machine : usable) {
      ram_gb += pool_[machine].ram_gb;
    }
    const auto is_enough = [&](std::size_t count) {
      return static_cast<double>(count) * needed_gb(usable.size() / count) <= ram_gb;
    };
    std::size_t low = 1;
    for (std::size_t high = most; low < high;) {
      const std::size_t middle = low + (high - low + 1) / 2;
      if (is_enough(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  void check_interrupted() const {
    if (options_.check_interrupted) {
      options_.check_interrupted();
    }
  }

  // Clusters -----------------------------------------------------------------------------

  std::optional<Fitted> try_fit(const Members& members) {
    if (members.size() > costs_.size()) {
      return std::nullopt;
    }
    const bool has_speeds = std::ranges::any_of(
        pool_, [](const Machine& machine) { return machine.gflops.has_value(); });
    const PartitionProblem problem = make_problem(pool_, gflops_, members);
    check_interrupted();
    auto found = has_speeds ? partition(costs_, problem) : partition_evenly(costs_, problem);
    if (!found) {
      return std::nullopt;
    }
    Fitted fitted{.members = {}, .partition = std::move(*found)};
    for (const std::size_t worker : fitted.partition.order) {
      fitted.members.push_back(members[worker]);
    }
    return fitted;
  }

  Plan assemble(const std::vector<Fitted>& fitted, std::vector<Spare> spares) const {
    Plan plan;
    plan.pool = pool_;
    for (const Fitted& fit : fitted) {
      plan.clusters.push_back(make_cluster(fit));
    }
    plan.rings = form_rings(graph_, costs_, plan.clusters);
    plan.spares = useless_;
    plan.spares.insert(plan.spares.end(), spares.begin(), spares.end());
    std::ranges::sort(plan.spares, {}, &Spare::machine);
    plan.batch = costs_.batch();
    plan.optimizer = options_.optimizer;
    plan.seed = options_.seed;
    plan.costs_known = costs_.known();
    plan.measured = !options_.op_seconds.empty();
    plan.speeds_known = std::ranges::any_of(
        pool_, [](const Machine& machine) { return machine.gflops.has_value(); });
    plan.model_bytes = costs_.memory(0, costs_.size(), 1).total();
    plan.total_flops = costs_.known() ? std::llround(costs_.work(0, costs_.size())) : 0;
    return plan;
  }

  Cluster make_cluster(const Fitted& fit) const {
    Cluster cluster;
    const std::size_t count = fit.members.size();
    for (std::size_t stage = 0; stage < count; ++stage) {
      const std::size_t first = stage == 0 ? 0 : fit.partition.cuts[stage - 1];
      const std::size_t last = stage + 1 == count ? costs_.size() : fit.partition.cuts[stage];
      cluster.stages.push_back(make_stage(fit.members[stage], first, last, count - 1 - stage));
    }
    for (std::size_t stage = 0; stage + 1 < count; ++stage) {
      Stage& here = cluster.stages[stage];
      const std::size_t cut = fit.partition.cuts[stage];
      const Link link = link_between(pool_[here.machine], pool_[fit.members[stage + 1]]);
      here.forward_bytes = costs_.forward_bytes(cut);
      here.backward_bytes = costs_.backward_bytes(cut);
      here.link_seconds = link_seconds(costs_, cut, link.mbps);
    }
    cluster.bottleneck_seconds = fit.partition.bottleneck_seconds;
    for (std::size_t stage = 0; stage + 1 < count; ++stage) {
      allow_for_links(fit, stage, cluster);
    }
    return cluster;
  }

  // Where links take time, more passes than stages must be in flight to keep all busy; as
  // many as the RAM allows, up to twice.
  void allow_for_links(const Fitted& fit, std::size_t index, Cluster& cluster) const {
    Stage& stage = cluster.stages[index];
    const std::size_t first = index == 0 ? 0 : fit.partition.cuts[index - 1];
    const std::size_t last = fit.partition.cuts[index];
    const std::size_t least = cluster.stages.size() - index;
    const auto wanted = static_cast<std::size_t>(std::min(
        1e6,
        std::ceil(round_trip_seconds(pool_, cluster, index) / cluster.bottleneck_seconds - 1e-9)));
    for (std::size_t passes = std::clamp(wanted, least, 2 * least); passes > least; --passes) {
      const StageMemory memory = costs_.memory(first, last, passes);
      if (memory.total() <= pool_[stage.machine].ram_bytes()) {
        stage.memory = memory;
        stage.delay = passes - 1;
        return;
      }
    }
  }

  Stage make_stage(std::size_t machine, std::size_t first, std::size_t last,
                   std::size_t delay) const {
    Stage stage;
    stage.machine = machine;
    stage.first_op = costs_.op_at(first);
    stage.last_op = costs_.op_at(last);
    stage.delay = delay;
    for (std::size_t i = costs_.first_parameter(first); i < costs_.first_parameter(last); ++i) {
      stage.parameters.push_back(costs_.parameters()[i]);
      stage.parameter_bytes += costs_.parameter_bytes(i);
    }
    stage.copies = costs_.copies(first, last);
    stage.memory = costs_.memory(first, last, stage.passes_in_flight());
    if (costs_.known()) {
      stage.forward_flops = std::llround(costs_.forward_work(first, last));
      stage.backward_flops = std::llround(costs_.backward_work(first, last));
    }
    stage.forward_seconds = costs_.forward_work(first, last) / (gflops_[machine] * 1e9);
    stage.backward_seconds = costs_.backward_work(first, last) / (gflops_[machine] * 1e9);
    return stage;
  }

  [[noreturn]] void refuse(std::size_t clusters = 1) {
    double ram = 0.0;
    for (const Machine& machine : pool_) {
      ram += machine.ram_gb * kGb;
    }
    const std::size_t size = std::clamp<std::size_t>(pool_.size() / clusters, 1, costs_.size());
    const double enough = needed_gb(size) * kGb / static_cast<double>(size);
    const double alone = static_cast<double>(costs_.memory(0, costs_.size(), 1).total());
    throw_invalid("[planner] the model does not fit the pool: training it takes ", gb(alone),
                  " on one machine (", graph::name_of(options_.optimizer),
                  costs_.batch() ? concat(", batch ", *costs_.batch()) : "", "), and the pool's ",
                  pool_.size(), pool_.size() == 1 ? " machine has " : " machines have ", gb(ram),
                  clusters > 1 ? concat(" for ", clusters, " clusters") : "",
                  ". Enough would be: ", clusters > 1 ? concat(clusters, " clusters of ") : "",
                  size, size == 1 ? " machine" : " machines", " with ", gb(enough),
                  size == 1 ? "." : " each.");
  }

  const std::vector<Machine>& pool_;
  const graph::Graph& graph_;
  const PlanOptions& options_;
  std::vector<double> gflops_;
  ModelCosts costs_;
  std::map<std::size_t, double> needed_gb_;  // by cluster size
  std::vector<Spare> useless_;
};

}  // namespace

double round_trip_seconds(const std::vector<Machine>& pool, const Cluster& cluster,
                          std::size_t stage) {
  double seconds = 0.0;
  for (std::size_t at = stage; at < cluster.stages.size(); ++at) {
    const Stage& here = cluster.stages[at];
    seconds += here.compute_seconds();
    if (at + 1 < cluster.stages.size()) {
      const Link link = link_between(pool[here.machine], pool[cluster.stages[at + 1].machine]);
      seconds +=
          static_cast<double>(here.forward_bytes + here.backward_bytes) * 8.0 / (link.mbps * 1e6) +
          2.0 * link.latency_ms * 1e-3;
    }
  }
  return seconds;
}

double pass_seconds(const std::vector<Machine>& pool, const Cluster& cluster) {
  double seconds = cluster.bottleneck_seconds;
  for (std::size_t stage = 0; stage < cluster.stages.size(); ++stage) {
    seconds = std::max(seconds, round_trip_seconds(pool, cluster, stage) /
                                    static_cast<double>(cluster.stages[stage].passes_in_flight()));
  }
  return seconds;
}

Plan make_plan(const graph::Program& program, const std::vector<Machine>& pool,
               const PlanOptions& options) {
  if (pool.empty()) {
    throw_invalid("[planner] expected a pool of one machine or more, got none.");
  }
  return Planner(program, pool, options).run();
}

}  // namespace ravnest::planner
