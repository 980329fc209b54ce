#include "ravnest/planner/rings.h"

#include <algorithm>

#include "ravnest/base/error.h"

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

}  // namespace

std::vector<Ring> form_rings(const ModelCosts& costs, const std::vector<Cluster>& clusters) {
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
      rings.push_back({.id = rings.size(), .parameters = {}, .nbytes = 0, .holders = here});
    }
    rings.back().parameters.push_back(costs.parameters()[parameter]);
    rings.back().nbytes += costs.parameter_bytes(parameter);
  }
  return rings;
}

}  // namespace ravnest::planner
