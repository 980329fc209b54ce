#include "ravnest/package/place_files.h"

#include "ravnest/base/error.h"
#include "ravnest/package/json_file.h"
#include "ravnest/package/node_file.h"

namespace ravnest::package {

namespace fs = std::filesystem;

NodeConfig read_place(const fs::path& file, const fs::path& folder) {
  const Json json = read_json(file);
  const std::int64_t id = Field(json, file).at("node_id").integer(0, std::int64_t{1} << 32);
  const std::string name = concat("node_", id);
  const fs::path path = folder / "nodes" / (name + ".json");
  fs::create_directories(path.parent_path());
  fs::copy_file(file, path, fs::copy_options::overwrite_existing);
  NodeConfig node = read_node(folder, name);
  fs::remove(path);
  return node;
}

void write_machine(const NodeConfig& node, const fs::path& node_data) {
  const fs::path path = node_data / "nodes" / concat("node_", node.id, ".json");
  fs::create_directories(path.parent_path());
  write_node(node, stage_folder(node_data, node).string() + "/", path);
}

void set_cluster(const fs::path& file, std::size_t cluster) {
  Json json = read_json(file);
  if (json.contains("cluster")) {
    json["cluster"] = cluster;
    fs::remove(file);  // the bytes may be somebody else's too
    write_json(json, file);
  }
}

}  // namespace ravnest::package
