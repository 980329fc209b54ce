#include "ravnest/planner/rings.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/graph/aliasing.h"

namespace ravnest::planner {

namespace {

// By parameter, in the order of use: the stage that holds it.
std::vector<std::size_t> holders_in(const Cluster& cluster) {
  std::vector<std::size_t> holders;
  for (std::size_t stage = 0; stage < cluster.stages.size(); ++stage) {
    holders.insert(holders.end(), cluster.stages[stage].parameters.size(), stage);
  }
  return holders;
}

// Buffers that an op changes, and the first such op, in their order.
std::vector<std::pair<std::size_t, std::string>> changed_buffers(const graph::Graph& graph) {
  std::map<graph::ValueId, std::string> buffers;
  for (const graph::Input& input : graph.inputs) {
    if (input.kind == graph::InputKind::kBuffer) {
      buffers.emplace(input.value, input.target);
    }
  }
  std::vector<std::pair<std::size_t, std::string>> changed;
  const graph::Aliasing aliasing(graph);
  for (std::size_t op = 0; op < aliasing.changed.size(); ++op) {
    for (const graph::ValueId root : aliasing.changed[op]) {
      if (auto buffer = buffers.extract(root)) {
        changed.emplace_back(op, std::move(buffer.mapped()));
      }
    }
  }
  return changed;
}

std::size_t stage_of(const Cluster& cluster, std::size_t op) {
  const auto after = std::ranges::upper_bound(cluster.stages, op, {}, &Stage::first_op);
  return static_cast<std::size_t>(after - cluster.stages.begin()) - 1;
}

void add_buffers(const graph::Graph& graph, const std::vector<Cluster>& clusters,
                 std::vector<Ring>& rings) {
  for (auto& [op, name] : changed_buffers(graph)) {
    std::vector<std::size_t> here;
    for (const Cluster& cluster : clusters) {
      here.push_back(stage_of(cluster, op));
    }
    auto ring = std::ranges::find(rings, here, &Ring::holders);
    if (ring == rings.end()) {
      rings.push_back({.id = rings.size(), .holders = here});
      ring = std::prev(rings.end());
    }
    ring->buffers.push_back(name);
  }
}

}  // namespace

std::vector<Ring> form_rings(const graph::Graph& graph, const ModelCosts& costs,
                             const std::vector<Cluster>& clusters) {
  std::vector<std::vector<std::size_t>> holders;
  for (const Cluster& cluster : clusters) {
    holders.push_back(holders_in(cluster));
    RAVNEST_CHECK(holders.back().size() == costs.parameters().size());
  }
  std::vector<Ring> rings;
  for (std::size_t parameter = 0; parameter < costs.parameters().size(); ++parameter) {
    std::vector<std::size_t> here;
    for (const auto& of_cluster : holders) {
      here.push_back(of_cluster[parameter]);
    }
    if (rings.empty() || rings.back().holders != here) {
      rings.push_back({.id = rings.size(), .holders = here});
    }
    rings.back().parameters.push_back(costs.parameters()[parameter]);
    rings.back().nbytes += costs.parameter_bytes(parameter);
  }
  add_buffers(graph, clusters, rings);
  return rings;
}

}  // namespace ravnest::planner
