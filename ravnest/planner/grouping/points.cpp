#include "ravnest/planner/grouping/points.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ravnest::planner {

namespace {

// Notes pairs whose link is slower than both networks, once for each of the two.
void add_far_pairs(const std::vector<Machine>& pool, const std::vector<std::size_t>& members,
                   const std::map<std::int64_t, std::size_t>& place, std::size_t index,
                   std::vector<GroupingProblem::Point>& points) {
  const Machine& machine = pool[members[index]];
  for (const auto& [id, link] : machine.links) {
    const auto other = place.find(id);
    const bool is_seen_twice = other != place.end() && other->second < index &&
                               pool[members[other->second]].links.contains(machine.id);
    if (other == place.end() || is_seen_twice) {
      continue;
    }
    const Machine& there = pool[members[other->second]];
    const double slower =
        std::log(std::min(machine.mbps, there.mbps) / link_between(machine, there).mbps);
    if (slower > 0.0) {
      points[index].far.emplace_back(other->second, slower * slower);
      points[other->second].far.emplace_back(index, slower * slower);
    }
  }
}

}  // namespace

std::vector<GroupingProblem::Point> make_points(const std::vector<Machine>& pool,
                                                const std::vector<double>& gflops,
                                                const std::vector<std::size_t>& members) {
  const bool has_speed =
      std::ranges::any_of(pool, [](const Machine& machine) { return machine.gflops.has_value(); });
  std::map<std::int64_t, std::size_t> place;
  std::vector<GroupingProblem::Point> points;
  for (const std::size_t member : members) {
    place.emplace(pool[member].id, points.size());
    points.push_back({.features = {std::log(pool[member].ram_gb), std::log(pool[member].mbps),
                                   has_speed ? std::log(gflops[member]) : 0.0},
                      .ram_gb = pool[member].ram_gb,
                      .far = {}});
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    add_far_pairs(pool, members, place, i, points);
  }
  return points;
}

}  // namespace ravnest::planner
