#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/atomic_file.h"
#include "ravnest/package/package.h"

namespace ravnest::package {

// What a plan says of one of its stages; `stages`: those of its cluster, as they were cut.
NodeConfig make_node(const planner::Plan& plan, const std::vector<graph::Stage>& stages,
                     std::size_t cluster, std::size_t stage);

// The reference's keys that repeat what `rings` says: by address of the next holder, and by
// id of the ring, the first parameter.
using Names = std::vector<std::pair<std::string, std::string>>;
Names param_addresses(const NodeConfig& node);
Names ring_ids(const NodeConfig& node);

// Writes nodes/node_<id>.json; `template_path` is the reference's name of the stage's
// folder, with a slash at its end.
void write_node(const NodeConfig& node, const std::string& template_path,
                const std::filesystem::path& path, Durability durability = Durability::kAtCommit);

}  // namespace ravnest::package
