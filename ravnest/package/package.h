#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/graph/slice.h"
#include "ravnest/planner/plan.h"

namespace ravnest::package {

// A plan on disk:
//   node_data/nodes/node_<i>.json                  what machine <i> must know (below)
//   node_data/cluster_<c>/<host:port>/submod.pt2   its part of the model
//     submod_<k>_input.json    {plan, cluster, stage, inputs: [{name, dtype, shape, source}]}
//     submod_<k>_output.json   {plan, cluster, stage, outputs: [{name, dtype, shape, used_by}]}
//     model_inputs.json        of the root: {plan, cluster, in_spec, out_spec, arguments,
//                              inputs: [{name, dtype, shape, used_by}],
//                              state_dict: [{name, kind, dtype, shape, tied_to}]}; out_spec is
//                              that of evaluation, and arguments the names of the model's, by
//                              commas
//     submod_<k>.safetensors   its weights after training (see trained.h)
// A source is {"model_input": i} or {"stage": k, "output": j}; used_by lists
// {"stage": k, "input": j}. A shape holds numbers and, for what depends on the batch,
// text; dtype and shape are null where nothing is known, and a size has a dtype ("int")
// but no shape. Where the eval graph takes, gives or routes something else, eval_inputs and
// eval_outputs stand beside.

// Writes a plan of this Program into `node_data`, in place of the one before. A reader sees
// the old plan, none, or the new one, and never a mix; nodes/ comes last. What is not part
// of a plan stays as it is, but whole folders nodes/ and cluster_<number>/ are replaced:
// trained weights of the old plan go with them. Throws std::invalid_argument where the plan
// is not one of this Program, an address cannot name a folder or a sub-model cannot be cut
// or saved, and Error(kIo) where the disk refuses or another process is writing a plan
// there. After an error the old plan stands. Gives the plan's id.
std::string write_plan(const graph::Program& program, const planner::Plan& plan,
                       const std::filesystem::path& node_data);

// A range of parameters, and buffers that training changes, that a node averages with its peers.
struct NodeRing {
  std::size_t id = 0;
  std::vector<std::string> parameters;  // in the order of use
  std::vector<std::string> buffers;
  std::vector<std::string> members;      // addresses, by cluster
  std::vector<std::int64_t> member_ids;  // of the nodes

  bool operator==(const NodeRing&) const = default;
};

// A node of the same cluster, and which of the model's inputs its stage takes: in training and
// in evaluation, in the order of the model's.
struct ClusterMate {
  std::int64_t id = 0;
  std::string address;
  std::vector<std::size_t> inputs;
  std::vector<std::size_t> eval_inputs;

  bool operator==(const ClusterMate&) const = default;
};

// One node's part in a plan: nodes/node_<id>.json. The reference's keys are node_id,
// local_host, local_port, template_path, rank, ring_size, cluster_length, param_addresses,
// ring_ids, forward_target_host, forward_target_port, backward_target_host,
// backward_target_port and node_type; a host of IPv6 keeps its brackets. The others are
// ours. param_addresses names one range of those that go to the same node; `rings` has
// them all.
struct NodeConfig {
  std::int64_t id = 0;
  std::string address;       // "host:port"
  std::string plan;          // id of the plan: equal on all nodes of one plan
  std::size_t cluster = 0;   // also the rank in the rings
  std::size_t clusters = 1;  // ring_size
  std::size_t stage = 0;
  std::size_t stages = 1;  // cluster_length
  // "root", "stem" or "leaf". The only stage of a cluster is a root without targets.
  std::string role = "root";
  std::optional<std::string> next;      // the stage after this one: forward target
  std::optional<std::string> previous;  // the stage before: backward target
  std::vector<ClusterMate> mates;       // by stage, this node among them
  std::size_t providers_here = 1;       // nodes of the plan with this node's host
  std::vector<NodeRing> rings;
  // Parameters that are used here and live in another stage of the cluster: its address.
  std::map<std::string, std::string> tied;
  // Parameters that live here and are used in other stages too: their addresses.
  std::map<std::string, std::vector<std::string>> tied_copies;
  std::size_t passes_in_flight = 1;
  std::optional<std::int64_t> batch;  // samples in a pass, where known

  bool operator==(const NodeConfig&) const = default;
};

// Reads what the plan in `node_data` says of the node "node_<i>". Every key is checked;
// throws std::invalid_argument naming file and key, or that there is no plan, and
// Error(kIo) where the file cannot be read.
NodeConfig read_node(const std::filesystem::path& node_data, std::string_view name);

// Where the node's sub-model is, from its cluster and address.
std::filesystem::path stage_folder(const std::filesystem::path& node_data, const NodeConfig& node);

// Reads the node's sub-model and where its inputs come from, as `slice` gave them; weights
// are views of the mapped file. Throws as read_node and graph::read_pt2 do, and
// std::invalid_argument where the files are not of the node's plan or the plan was replaced
// meanwhile.
graph::Stage read_stage(const std::filesystem::path& node_data, const NodeConfig& node);

// The nodes of one cluster, from root to leaf. Throws as read_node does, and
// std::invalid_argument where the plan has no such cluster or lacks a stage of it.
std::vector<NodeConfig> read_cluster(const std::filesystem::path& node_data, std::size_t cluster);

// A name of the model's state dict.
struct StateName {
  std::string name;
  std::string dtype;  // "float32"
  std::vector<std::int64_t> sizes;
  bool is_parameter = false;           // else a buffer
  std::optional<std::string> tied_to;  // the first name of the same tensor

  bool operator==(const StateName&) const = default;
};

// The whole model's state dict in its own order, from what the root of a cluster knows of it.
// Throws as read_stage does.
std::vector<StateName> read_state_dict(const std::filesystem::path& node_data,
                                       const NodeConfig& root);

}  // namespace ravnest::package
