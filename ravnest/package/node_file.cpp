#include "ravnest/package/node_file.h"

#include <algorithm>
#include <set>

#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/package/json_file.h"
#include "ravnest/package/stage_files.h"
#include "ravnest/planner/report/report.h"

namespace ravnest::package {

namespace {

const std::string& address_of(const planner::Plan& plan, std::size_t cluster, std::size_t stage) {
  return plan.machine(plan.clusters[cluster].stages[stage]).address;
}

std::vector<NodeRing> make_rings(const planner::Plan& plan, std::size_t cluster,
                                 std::size_t stage) {
  std::vector<NodeRing> rings;
  for (const planner::Ring* ring : planner::rings_of(plan, cluster, stage)) {
    NodeRing& made = rings.emplace_back(
        NodeRing{.id = ring->id, .parameters = ring->parameters, .buffers = ring->buffers});
    for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
      made.members.push_back(address_of(plan, c, ring->holders[c]));
      made.member_ids.push_back(plan.machine(plan.clusters[c].stages[ring->holders[c]]).id);
    }
  }
  return rings;
}

std::vector<std::size_t> model_inputs(const std::vector<graph::Source>& sources) {
  std::set<std::size_t> indices;
  for (const graph::Source& source : sources) {
    if (source.kind == graph::Source::Kind::kModel) {
      indices.insert(source.index);
    }
  }
  return {indices.begin(), indices.end()};
}

std::vector<ClusterMate> make_mates(const planner::Cluster& cluster, const planner::Plan& plan,
                                    const std::vector<graph::Stage>& stages) {
  std::vector<ClusterMate> mates;
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const planner::Machine& machine = plan.machine(cluster.stages[k]);
    const bool has_eval = stages[k].program.eval_graph.has_value();
    mates.push_back(
        {.id = machine.id,
         .address = machine.address,
         .inputs = model_inputs(stages[k].sources),
         .eval_inputs = model_inputs(has_eval ? stages[k].eval_sources : stages[k].sources)});
  }
  return mates;
}

std::size_t count_on_host(const planner::Plan& plan, const std::string& host) {
  std::size_t count = 0;
  for (const planner::Cluster& cluster : plan.clusters) {
    for (const planner::Stage& stage : cluster.stages) {
      count += parse_address(plan.machine(stage).address).host == host ? 1 : 0;
    }
  }
  return count;
}

void add_tied(const planner::Plan& plan, NodeConfig& node) {
  const auto& stages = plan.clusters[node.cluster].stages;
  const auto note = [&](std::size_t holder, std::size_t user) {
    for (const std::string& name : stages[user].copies) {
      if (std::ranges::find(stages[holder].parameters, name) == stages[holder].parameters.end()) {
        continue;
      }
      if (user == node.stage) {
        node.tied[name] = address_of(plan, node.cluster, holder);
      } else {
        node.tied_copies[name].push_back(address_of(plan, node.cluster, user));
      }
    }
  };
  for (std::size_t other = 0; other < stages.size(); ++other) {
    if (other < node.stage) {
      note(other, node.stage);
    } else if (other > node.stage) {
      note(node.stage, other);
    }
  }
}

Json host_json(const std::optional<std::string>& address) {
  return address ? Json(parse_address(*address).host) : Json(nullptr);
}

Json port_json(const std::optional<std::string>& address) {
  return address ? Json(parse_address(*address).port) : Json(nullptr);
}

Json names_json(const Names& names) {
  Json object = Json::object();
  for (const auto& [key, name] : names) {
    object[key] = name;
  }
  return object;
}

Json rings_json(const NodeConfig& node) {
  Json rings = Json::array();
  for (const NodeRing& ring : node.rings) {
    rings.push_back({{"id", ring.id},
                     {"parameters", ring.parameters},
                     {"buffers", ring.buffers},
                     {"members", ring.members},
                     {"member_ids", ring.member_ids}});
  }
  return rings;
}

Json mates_json(const NodeConfig& node) {
  Json mates = Json::array();
  for (const ClusterMate& mate : node.mates) {
    mates.push_back({{"node_id", mate.id},
                     {"address", mate.address},
                     {"inputs", mate.inputs},
                     {"eval_inputs", mate.eval_inputs}});
  }
  return mates;
}

}  // namespace

NodeConfig make_node(const planner::Plan& plan, const std::vector<graph::Stage>& stages,
                     std::size_t cluster, std::size_t stage) {
  const planner::Cluster& mates = plan.clusters[cluster];
  NodeConfig node{.id = plan.machine(mates.stages[stage]).id,
                  .address = address_of(plan, cluster, stage),
                  .cluster = cluster,
                  .clusters = plan.clusters.size(),
                  .stage = stage,
                  .stages = mates.stages.size(),
                  .role = std::string(planner::role_of(mates, stage)),
                  .mates = make_mates(mates, plan, stages),
                  .rings = make_rings(plan, cluster, stage),
                  .passes_in_flight = mates.stages[stage].passes_in_flight(),
                  .batch = plan.batch};
  node.providers_here = count_on_host(plan, parse_address(node.address).host);
  if (stage + 1 < mates.stages.size()) {
    node.next = address_of(plan, cluster, stage + 1);
  }
  if (stage > 0) {
    node.previous = address_of(plan, cluster, stage - 1);
  }
  add_tied(plan, node);
  return node;
}

namespace {

const std::string& first_name(const NodeRing& ring) {
  return ring.parameters.empty() ? ring.buffers[0] : ring.parameters[0];
}

}  // namespace

Names param_addresses(const NodeConfig& node) {
  Names addresses;
  for (const NodeRing& ring : node.rings) {
    const std::string& next = ring.members[(node.cluster + 1) % node.clusters];
    if (std::ranges::find(addresses, next, &Names::value_type::first) == addresses.end()) {
      addresses.emplace_back(next, first_name(ring));
    }
  }
  return addresses;
}

Names ring_ids(const NodeConfig& node) {
  Names ids;
  for (const NodeRing& ring : node.rings) {
    ids.emplace_back(std::to_string(ring.id), first_name(ring));
  }
  return ids;
}

void write_node(const NodeConfig& node, const std::string& template_path,
                const std::filesystem::path& path, Durability durability) {
  Json object = {{"node_id", node.id},
                 {"local_host", host_json(node.address)},
                 {"local_port", port_json(node.address)},
                 {"template_path", template_path},
                 {"rank", node.cluster},
                 {"ring_size", node.clusters},
                 {"cluster_length", node.stages},
                 {"param_addresses", names_json(param_addresses(node))},
                 {"ring_ids", names_json(ring_ids(node))},
                 {"forward_target_host", host_json(node.next)},
                 {"forward_target_port", port_json(node.next)},
                 {"backward_target_host", host_json(node.previous)},
                 {"backward_target_port", port_json(node.previous)},
                 {"node_type", node.role},
                 {"plan", node.plan},
                 {"cluster", node.cluster},
                 {"stage", node.stage},
                 {"sub_model", kSubModel},
                 {"cluster_nodes", mates_json(node)},
                 {"providers_here", node.providers_here},
                 {"rings", rings_json(node)},
                 {"tied", node.tied},
                 {"tied_copies", node.tied_copies},
                 {"passes_in_flight", node.passes_in_flight},
                 {"batch", node.batch ? Json(*node.batch) : Json(nullptr)}};
  write_json(object, path, durability);
}

}  // namespace ravnest::package
