#pragma once

#include <string>
#include <vector>

#include "ravnest/planner/plan.h"

namespace ravnest::planner {

struct Compute {
  double forward = 0.0;
  double backward = 0.0;
};

struct Wires {
  std::int64_t forward_bytes = 0;
  std::int64_t backward_bytes = 0;
  double mbps = 1000.0;
  double latency_ms = 0.0;  // between two machines
};

// Clusters of the given stages, with machines 10, 11, … and equal links between all. A pass
// has 32 samples.
inline Plan make_pipelines(const std::vector<std::vector<Compute>>& clusters, const Wires& wires) {
  Plan plan;
  plan.batch = 32;
  for (const std::vector<Compute>& computes : clusters) {
    Cluster cluster;
    for (std::size_t k = 0; k < computes.size(); ++k) {
      const std::size_t behind = computes.size() - 1 - k;
      cluster.stages.push_back({.machine = plan.pool.size(),
                                .forward_seconds = computes[k].forward,
                                .backward_seconds = computes[k].backward,
                                .forward_bytes = behind > 0 ? wires.forward_bytes : 0,
                                .backward_bytes = behind > 0 ? wires.backward_bytes : 0,
                                .delay = behind});
      const auto id = static_cast<std::int64_t>(10 + plan.pool.size());
      plan.pool.push_back({.id = id,
                           .address = "host-" + std::to_string(id) + ":8080",
                           .ram_gb = 8,
                           .mbps = wires.mbps,
                           .latency_ms = wires.latency_ms / 2});
    }
    plan.clusters.push_back(std::move(cluster));
  }
  return plan;
}

}  // namespace ravnest::planner
