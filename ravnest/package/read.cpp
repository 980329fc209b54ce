#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/package/json_file.h"
#include "ravnest/package/node_file.h"
#include "ravnest/package/package.h"
#include "ravnest/package/stage_files.h"

namespace ravnest::package {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxCount = 1'000'000;  // clusters, stages, rings, passes
constexpr std::string_view kPrefix = "node_";

std::int64_t id_of(std::string_view name) {
  const std::string_view digits =
      name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : std::string_view();
  std::int64_t id = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), id);
  // Only as one writes it: the name becomes a path.
  if (id < 0 || std::to_string(id) != digits) {
    throw_invalid("[package] expected the name of a node such as 'node_0', got '", name, "'.");
  }
  return id;
}

// Whether something is there; throws where the disk does not say.
bool is_there(const fs::path& path) {
  std::error_code error;
  const bool found = fs::exists(path, error);
  if (error) {
    throw Error(ErrorKind::kIo,
                concat("[package] cannot look at '", path.string(), "': ", error.message(), "."));
  }
  return found;
}

fs::path nodes_folder(const fs::path& node_data) {
  fs::path nodes = node_data / "nodes";
  if (!is_there(nodes)) {
    throw_invalid("[package] no plan in '", node_data.string(), "': run clusterize first.");
  }
  return nodes;
}

fs::path node_path(const fs::path& node_data, std::string_view name) {
  const fs::path nodes = nodes_folder(node_data);
  fs::path path = nodes / concat(name, ".json");
  if (!is_there(path)) {
    throw_invalid("[package] the plan in '", node_data.string(), "' has no part for '", name,
                  "': see the files in '", nodes.string(), "'.");
  }
  return path;
}

std::string read_address(const Field& field) {
  std::string text = field.text();
  try {
    parse_address(text);
  } catch (const std::invalid_argument&) {
    field.refuse("an address 'host:port'");
  }
  return text;
}

// An address from the keys of its host and port; nothing where both are null.
std::optional<std::string> find_address(const Field& file, const char* host, const char* port) {
  const Field host_field = file.at(host);
  const Field port_field = file.at(port);
  if (host_field.is_null() && port_field.is_null()) {
    return std::nullopt;
  }
  std::string address = concat(host_field.text(), ":", port_field.integer(1, 65535));
  try {
    parse_address(address);
  } catch (const std::invalid_argument&) {
    host_field.refuse("the name or IP of a host");
  }
  return address;
}

void check_distinct(const std::vector<std::string>& names, const Field& field) {
  if (std::set<std::string>(names.begin(), names.end()).size() != names.size()) {
    field.refuse("no name twice");
  }
}

NodeRing read_ring(const Field& field, const NodeConfig& node) {
  NodeRing ring{.id = field.at("id").count(0, kMaxCount),
                .parameters = field.at("parameters").texts(),
                .buffers = field.at("buffers").texts()};
  const Field members = field.at("members");
  for (const Field& member : members.items()) {
    ring.members.push_back(read_address(member));
  }
  if (ring.parameters.empty() && ring.buffers.empty()) {
    field.at("parameters").refuse("a parameter or more");
  }
  for (const Field& id : field.at("member_ids").items()) {
    ring.member_ids.push_back(id.integer(0, std::numeric_limits<std::int64_t>::max()));
  }
  if (ring.member_ids.size() != ring.members.size()) {
    field.at("member_ids").refuse("an id for each member");
  }
  if (ring.members.size() != node.clusters || ring.members[node.cluster] != node.address) {
    members.refuse(concat("a member in each of ", node.clusters, " clusters, this node ('",
                          node.address, "') in place ", node.cluster));
  }
  check_distinct(ring.members, members);
  return ring;
}

std::vector<std::size_t> read_indices(const Field& field) {
  std::vector<std::size_t> indices;
  for (const Field& item : field.items()) {
    indices.push_back(item.count(indices.empty() ? 0 : indices.back() + 1, kMaxCount));
  }
  return indices;
}

// After the targets: the neighbours must be the same.
void read_mates(const Field& file, NodeConfig& node) {
  const Field field = file.at("cluster_nodes");
  for (const Field& mate : field.items()) {
    node.mates.push_back(
        {.id = mate.at("node_id").integer(0, std::numeric_limits<std::int64_t>::max()),
         .address = read_address(mate.at("address")),
         .inputs = read_indices(mate.at("inputs")),
         .eval_inputs = read_indices(mate.at("eval_inputs"))});
  }
  const auto is_at = [&](std::size_t stage, const std::string& address) {
    return node.mates[stage].address == address;
  };
  if (node.mates.size() != node.stages || !is_at(node.stage, node.address) ||
      node.mates[node.stage].id != node.id || (node.next && !is_at(node.stage + 1, *node.next)) ||
      (node.previous && !is_at(node.stage - 1, *node.previous))) {
    field.refuse(concat("the ", node.stages, " nodes of the cluster, this one in place ",
                        node.stage, " between its targets"));
  }
  node.providers_here = file.at("providers_here").count(1, kMaxCount);
}

void read_rings(const Field& file, NodeConfig& node) {
  std::set<std::size_t> ids;
  std::vector<std::string> parameters;
  for (const Field& field : file.at("rings").items()) {
    const NodeRing& ring = node.rings.emplace_back(read_ring(field, node));
    if (!ids.insert(ring.id).second) {
      field.at("id").refuse("an id of its own");
    }
    parameters.insert(parameters.end(), ring.parameters.begin(), ring.parameters.end());
  }
  check_distinct(parameters, file.at("rings"));
}

void check_names(const Field& field, const Names& expected) {
  Names names;
  for (const auto& [key, value] : field.entries()) {
    names.emplace_back(key, value.text());
  }
  if (!std::ranges::is_permutation(names, expected)) {
    field.refuse("what 'rings' says");
  }
}

void read_tied(const Field& file, NodeConfig& node) {
  for (const auto& [name, holder] : file.at("tied").entries()) {
    node.tied[name] = read_address(holder);
  }
  for (const auto& [name, users] : file.at("tied_copies").entries()) {
    for (const Field& user : users.items()) {
      node.tied_copies[name].push_back(read_address(user));
    }
  }
}

std::string read_plan(const Field& field) {
  std::string plan = field.text();
  const bool valid = plan.size() == 16 && std::ranges::all_of(plan, [](char c) {
                       return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                     });
  if (!valid) {
    field.refuse("16 hexadecimal digits");
  }
  return plan;
}

void check_equal(const Field& field, const std::string& expected) {
  if (field.text() != expected) {
    field.refuse(concat("'", expected, "'"));
  }
}

void read_place(const Field& file, NodeConfig& node) {
  node.clusters = file.at("ring_size").count(1, kMaxCount);
  node.cluster = file.at("cluster").count(0, node.clusters - 1);
  if (file.at("rank").count(0, node.clusters - 1) != node.cluster) {
    file.at("rank").refuse("the cluster's number");
  }
  node.stages = file.at("cluster_length").count(1, kMaxCount);
  node.stage = file.at("stage").count(0, node.stages - 1);
  const bool is_last = node.stage + 1 == node.stages;
  node.role = node.stage == 0 ? "root" : is_last ? "leaf" : "stem";
  check_equal(file.at("node_type"), node.role);
}

void read_targets(const Field& file, NodeConfig& node) {
  node.next = find_address(file, "forward_target_host", "forward_target_port");
  node.previous = find_address(file, "backward_target_host", "backward_target_port");
  if (node.next.has_value() == (node.stage + 1 == node.stages)) {
    file.at("forward_target_host").refuse("the next stage's host, or null in the last stage");
  }
  if (node.previous.has_value() == (node.stage == 0)) {
    file.at("backward_target_host").refuse("the host of the stage before, or null in the first");
  }
}

// The folder follows from cluster and address, and the path in the file must agree; it may
// have been written from another working directory.
void check_template_path(const Field& field, const NodeConfig& node) {
  const std::string tail = stage_folder({}, node).string() + "/";
  const std::string path = field.text();
  if (path != tail && !path.ends_with("/" + tail)) {
    field.refuse(concat("a path that ends with '", tail, "'"));
  }
}

NodeConfig parse_node(const Field& file, std::int64_t id) {
  NodeConfig node{.id = file.at("node_id").integer(0, std::numeric_limits<std::int64_t>::max())};
  if (node.id != id) {
    file.at("node_id").refuse(concat(id, ", as the file's name says"));
  }
  const auto address = find_address(file, "local_host", "local_port");
  if (!address) {
    file.at("local_host").refuse("the name or IP of a host");
  }
  node.address = *address;
  node.plan = read_plan(file.at("plan"));
  read_place(file, node);
  read_targets(file, node);
  read_mates(file, node);
  check_template_path(file.at("template_path"), node);
  check_equal(file.at("sub_model"), kSubModel);
  read_rings(file, node);
  check_names(file.at("param_addresses"), param_addresses(node));
  check_names(file.at("ring_ids"), ring_ids(node));
  read_tied(file, node);
  node.passes_in_flight = file.at("passes_in_flight").count(1, kMaxCount);
  if (!file.at("batch").is_null()) {
    node.batch = file.at("batch").integer(1, std::numeric_limits<std::int64_t>::max());
  }
  return node;
}

// Of all nodes of the plan. Files of other names are nobody's.
std::vector<std::string> node_names(const fs::path& node_data) {
  const fs::path nodes = nodes_folder(node_data);
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(nodes, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() == ".json" && path.stem().string().starts_with(kPrefix)) {
      names.push_back(path.stem().string());
    }
  }
  if (error) {
    throw Error(ErrorKind::kIo,
                concat("[package] cannot read '", nodes.string(), "': ", error.message(), "."));
  }
  return names;
}

// Throws unless the nodes, by stage, are a whole cluster of one plan.
void check_chain(const std::vector<NodeConfig>& nodes, const fs::path& node_data) {
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    if (nodes[k].stage != k || nodes[k].stages != nodes.size() || nodes[k].plan != nodes[0].plan) {
      throw_invalid("[package] expected the ", nodes[0].stages, " stages of cluster ",
                    nodes[0].cluster, " in '", (node_data / "nodes").string(), "', got ",
                    nodes.size(), " nodes, of which node_", nodes[k].id, " holds stage ",
                    nodes[k].stage, " of ", nodes[k].stages, " in plan ", nodes[k].plan,
                    ": run clusterize again.");
    }
  }
}

}  // namespace

NodeConfig read_node(const fs::path& node_data, std::string_view name) {
  const std::int64_t id = id_of(name);
  const fs::path path = node_path(node_data, name);
  const Json json = read_json(path);
  return parse_node(Field(json, path), id);
}

fs::path stage_folder(const fs::path& node_data, const NodeConfig& node) {
  return node_data / concat("cluster_", node.cluster) / node.address;
}

graph::Stage read_stage(const fs::path& node_data, const NodeConfig& node) {
  graph::Stage stage =
      read_stage_files({.plan = node.plan, .cluster = node.cluster, .stage = node.stage},
                       stage_folder(node_data, node));
  // nodes/ is the first to go and the last to come: if it is still the same plan's, no file
  // changed in between.
  if (read_node(node_data, concat(kPrefix, node.id)).plan != node.plan) {
    throw_invalid("[package] the plan in '", node_data.string(),
                  "' was replaced while it was read: read it again.");
  }
  return stage;
}

std::vector<NodeConfig> read_cluster(const fs::path& node_data, std::size_t cluster) {
  std::vector<NodeConfig> nodes;
  std::size_t clusters = 0;
  for (const std::string& name : node_names(node_data)) {
    NodeConfig node = read_node(node_data, name);
    clusters = std::max(clusters, node.clusters);
    if (node.cluster == cluster) {
      nodes.push_back(std::move(node));
    }
  }
  if (nodes.empty()) {
    throw_invalid("[package] the plan in '", node_data.string(), "' has no cluster ", cluster,
                  ": it has ", clusters, ", counted from 0.");
  }
  std::ranges::sort(nodes, {}, &NodeConfig::stage);
  check_chain(nodes, node_data);
  return nodes;
}

std::vector<StateName> read_state_dict(const fs::path& node_data, const NodeConfig& root) {
  return read_state_file({.plan = root.plan, .cluster = root.cluster, .stage = root.stage},
                         stage_folder(node_data, root));
}

}  // namespace ravnest::package
