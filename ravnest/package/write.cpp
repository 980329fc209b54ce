#include <algorithm>
#include <map>
#include <set>

#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/base/in_parallel.h"
#include "ravnest/package/node_file.h"
#include "ravnest/package/package.h"
#include "ravnest/package/plan_id.h"
#include "ravnest/package/plan_swap.h"
#include "ravnest/package/stage_files.h"

namespace ravnest::package {

namespace fs = std::filesystem;

namespace {

using Cuts = std::vector<std::size_t>;

// Cuts of one cluster; throws unless its stages follow each other through all ops.
Cuts cuts_of(const planner::Cluster& cluster, std::size_t ops) {
  Cuts cuts;
  std::size_t at = 0;
  for (const planner::Stage& stage : cluster.stages) {
    if (stage.first_op != at || stage.last_op <= at) {
      throw_invalid("[package] expected a stage that begins at op ", at, ", got ops ",
                    stage.first_op, " to ", stage.last_op, ".");
    }
    if (at > 0) {
      cuts.push_back(at);
    }
    at = stage.last_op;
  }
  if (at != ops) {
    throw_invalid("[package] expected a plan of this Program of ", ops, " ops, got one of ", at,
                  ".");
  }
  return cuts;
}

void check_machines(const planner::Plan& plan) {
  std::set<std::string> addresses;
  std::set<std::int64_t> ids;
  for (const planner::Cluster& cluster : plan.clusters) {
    for (const planner::Stage& stage : cluster.stages) {
      RAVNEST_CHECK(stage.machine < plan.pool.size());
      const planner::Machine& machine = plan.machine(stage);
      parse_address(machine.address);
      if (machine.id < 0 || !ids.insert(machine.id).second ||
          !addresses.insert(machine.address).second) {
        throw_invalid("[package] expected nodes with ids and addresses of their own, got node ",
                      machine.id, " at '", machine.address, "' twice.");
      }
    }
  }
}

void check_rings(const planner::Plan& plan) {
  for (const planner::Ring& ring : plan.rings) {
    RAVNEST_CHECK(!ring.parameters.empty() && ring.holders.size() == plan.clusters.size());
    for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
      RAVNEST_CHECK(ring.holders[c] < plan.clusters[c].stages.size());
    }
  }
}

void check_weights(const planner::Cluster& cluster, const std::vector<graph::Stage>& stages) {
  for (std::size_t k = 0; k < stages.size(); ++k) {
    for (const auto* names : {&cluster.stages[k].parameters, &cluster.stages[k].copies}) {
      for (const std::string& name : *names) {
        if (stages[k].program.find_weight(name) == nullptr) {
          throw_invalid("[package] expected a plan of this Program, got one with parameter '", name,
                        "' in stage ", k, ", which has none of that name.");
        }
      }
    }
  }
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::kIo, concat("[package] cannot make the folder '", folder.string(),
                                       "': ", error.message(), "."));
  }
}

// Clusters that are cut alike share their sub-models.
using Slices = std::map<Cuts, std::vector<graph::Stage>>;

Slices slice_all(const graph::Program& program, const planner::Plan& plan) {
  const std::size_t ops = program.graph.ops.size();
  Slices slices;
  for (const planner::Cluster& cluster : plan.clusters) {
    slices[cuts_of(cluster, ops)];
  }
  std::vector<Slices::value_type*> entries;
  for (auto& entry : slices) {
    entries.push_back(&entry);
  }
  in_parallel(entries.size(), [&](std::size_t i) {
    entries[i]->second = graph::slice(program, entries[i]->first);
  });
  for (const planner::Cluster& cluster : plan.clusters) {
    check_weights(cluster, slices.at(cuts_of(cluster, ops)));
  }
  return slices;
}

}  // namespace

std::string write_plan(const graph::Program& program, const planner::Plan& plan,
                       const fs::path& node_data) {
  check_machines(plan);
  check_rings(plan);
  const Slices slices = slice_all(program, plan);
  const std::string id = plan_id(program, plan);
  PlanSwap swap(node_data);
  make_folder(swap.folder() / "nodes");
  std::vector<StagePlace> places;
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    for (std::size_t k = 0; k < plan.clusters[c].stages.size(); ++k) {
      places.push_back({.plan = id, .cluster = c, .stage = k});
    }
  }
  in_parallel(places.size(), [&](std::size_t i) {
    const StagePlace& place = places[i];
    const auto& stages = slices.at(cuts_of(plan.clusters[place.cluster], program.graph.ops.size()));
    NodeConfig node = make_node(plan, stages, place.cluster, place.stage);
    node.plan = id;
    const fs::path folder = stage_folder(swap.folder(), node);
    make_folder(folder);
    write_stage(program, stages, place, folder);
    write_node(node, stage_folder(node_data, node).generic_string() + "/",
               swap.folder() / "nodes" / concat("node_", node.id, ".json"), Durability::kAtSync);
  });
  swap.commit();
  return id;
}

}  // namespace ravnest::package
