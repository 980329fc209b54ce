#include "ravnest/coordinator/shapes.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

namespace ravnest::coordinator {

namespace {

constexpr double kHardlySlower = 1.1;
constexpr double kNever = std::numeric_limits<double>::infinity();

class Cutter {
 public:
  explicit Cutter(const planner::Plan& plan)
      : plan_(plan), gflops_(planner::planning_gflops(plan.pool)) {}

  // Between two passes, where the cluster's machines hold the other's stages.
  double seconds(const planner::Cluster& cluster, const planner::Cluster& other) const {
    if (cluster.stages.size() != other.stages.size()) {
      return kNever;
    }
    double slowest = 0.0;
    for (std::size_t k = 0; k < cluster.stages.size(); ++k) {
      const planner::Stage& stage = other.stages[k];
      const std::size_t machine = cluster.stages[k].machine;
      if (stage.delay != cluster.stages[k].delay ||
          stage.memory.total() > plan_.pool[machine].ram_bytes()) {
        return kNever;
      }
      const double ratio = gflops_[stage.machine] / gflops_[machine];
      slowest =
          std::max({slowest, stage.compute_seconds() * ratio, link_seconds(cluster, stage, k)});
    }
    return slowest;
  }

 private:
  double link_seconds(const planner::Cluster& cluster, const planner::Stage& stage,
                      std::size_t k) const {
    if (k + 1 == cluster.stages.size()) {
      return 0.0;
    }
    const double mbps = planner::link_between(plan_.machine(cluster.stages[k]),
                                              plan_.machine(cluster.stages[k + 1]))
                            .mbps;
    const auto nbytes = static_cast<double>(std::max(stage.forward_bytes, stage.backward_bytes));
    return nbytes == 0.0 ? 0.0 : 8e-6 * nbytes / mbps;
  }

  const planner::Plan& plan_;
  const std::vector<double> gflops_;
};

bool is_cut_alike(const planner::Cluster& a, const planner::Cluster& b) {
  return std::ranges::equal(a.stages, b.stages, [](const auto& one, const auto& other) {
    return one.first_op == other.first_op && one.last_op == other.last_op &&
           one.delay == other.delay;
  });
}

std::optional<std::size_t> find_shape(const std::vector<planner::Cluster>& shapes,
                                      const planner::Cluster& cluster, const Cutter& cutter) {
  std::optional<std::size_t> best;
  double least = kHardlySlower * cutter.seconds(cluster, cluster);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (is_cut_alike(shapes[i], cluster)) {
      return i;
    }
    const double seconds = cutter.seconds(cluster, shapes[i]);
    if (seconds < kNever && seconds <= least) {
      best = i;
      least = seconds;
    }
  }
  return best;
}

// Neighbours that are held by the same stages everywhere are one.
std::vector<planner::Ring> merged(std::vector<planner::Ring> rings) {
  std::vector<planner::Ring> result;
  for (planner::Ring& ring : rings) {
    if (result.empty() || result.back().holders != ring.holders) {
      ring.id = result.size();
      result.push_back(std::move(ring));
      continue;
    }
    planner::Ring& last = result.back();
    std::ranges::move(ring.parameters, std::back_inserter(last.parameters));
    std::ranges::move(ring.buffers, std::back_inserter(last.buffers));
    last.nbytes += ring.nbytes;
  }
  return result;
}

}  // namespace

Shapes find_shapes(const planner::Plan& plan) {
  const Cutter cutter(plan);
  Shapes shapes{.plan = plan, .by_cluster = {}};
  shapes.plan.clusters.clear();
  std::vector<std::size_t> kept;
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    const auto shape = find_shape(shapes.plan.clusters, plan.clusters[c], cutter);
    shapes.by_cluster.push_back(shape.value_or(kept.size()));
    if (!shape) {
      shapes.plan.clusters.push_back(plan.clusters[c]);
      kept.push_back(c);
    }
  }
  for (planner::Ring& ring : shapes.plan.rings) {
    const std::vector<std::size_t> holders = std::move(ring.holders);
    ring.holders.clear();
    for (const std::size_t c : kept) {
      ring.holders.push_back(holders[c]);
    }
  }
  shapes.plan.rings = merged(std::move(shapes.plan.rings));
  return shapes;
}

}  // namespace ravnest::coordinator
