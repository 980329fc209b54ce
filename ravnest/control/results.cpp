#include "ravnest/control/results.h"

#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "ravnest/base/error.h"
#include "ravnest/package/checkpoint_file.h"
#include "ravnest/package/place_files.h"
#include "ravnest/package/safetensors.h"
#include "ravnest/package/trained.h"

namespace ravnest::control {

namespace fs = std::filesystem;

namespace {

constexpr const char* kNodeFile = "node.json";
constexpr std::size_t kMostClusters = 1 << 20;

using Metadata = std::map<std::string, std::string>;

// The cluster that trained these weights, as they say. A job that ended before its training gave
// checkpoints, which are all of one.
std::size_t cluster_of(const Metadata& metadata, bool is_checkpoint) {
  if (is_checkpoint) {
    return 0;
  }
  const auto found = metadata.find("cluster");
  std::size_t cluster = kMostClusters;
  if (found != metadata.end()) {
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), cluster);
  }
  if (cluster >= kMostClusters) {
    throw_invalid("[control] expected the weights of a cluster, got a file that names none.");
  }
  return cluster;
}

// As if the stage had saved what its checkpoint has.
package::TrainedStage trained_of(const package::StoredTensors& checkpoint) {
  const std::string passes = checkpoint.metadata.at("passes");
  package::TrainedStage trained;
  const auto run = checkpoint.metadata.find("run");
  const auto read = std::from_chars(passes.data(), passes.data() + passes.size(), trained.passes);
  if (run == checkpoint.metadata.end() || run->second.empty() || read.ec != std::errc()) {
    throw_invalid("[control] expected a checkpoint that names its run and passes, got another.");
  }
  trained.run = run->second;
  const std::string_view prefix = package::kWeightPrefix;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with(prefix)) {
      trained.tensors.emplace(name.substr(prefix.size()), tensor);
    }
  }
  return trained;
}

// Clusters that are cut alike have the same node files: each gets names of its own.
void number(package::NodeConfig& node, std::size_t cluster) {
  const auto id_of = [&](std::size_t stage) {
    return coordinator::node_id_of(static_cast<std::int64_t>(cluster),
                                   static_cast<std::int64_t>(stage));
  };
  node.cluster = cluster;
  node.clusters = cluster + 1;
  node.id = id_of(node.stage);
  for (std::size_t stage = 0; stage < node.mates.size(); ++stage) {
    node.mates[stage].id = id_of(stage);
  }
  node.rings.clear();
}

}  // namespace

std::size_t fetch_results(const Client& client, coordinator::JobId job, const fs::path& node_data,
                          const TransferOptions& options) {
  const auto results = coordinator::read_results(client.ask(coordinator::WantsResults{.job = job}));
  if (results.pieces.empty()) {
    throw_invalid("[control] expected the weights of job ", job, ", got a server that has none.");
  }
  fs::create_directories(node_data / "fetched");
  std::set<std::size_t> clusters;
  for (const coordinator::ResultPiece& each : results.pieces) {
    const fs::path weights = node_data / "fetched" / each.piece.artifact;
    client.download(each.piece.artifact, weights, options);
    const package::StoredTensors stored = package::read_safetensors(weights);
    const bool is_checkpoint =
        !stored.metadata.contains("cluster") && stored.metadata.contains("passes");
    const std::size_t cluster = cluster_of(stored.metadata, is_checkpoint);
    clusters.insert(cluster);
    const auto get = [&](const coordinator::File& file) {
      fs::path path = node_data / "fetched" / file.hash;
      client.download(file.hash, path, options);
      return path;
    };
    std::optional<package::NodeConfig> node;
    for (const coordinator::File& file : each.files) {
      if (file.name == kNodeFile) {
        node = package::read_place(get(file), node_data / "fetched");
      }
    }
    if (!node) {
      throw_invalid("[control] expected results with their node files, got some without.");
    }
    number(*node, cluster);
    package::write_machine(*node, node_data);
    const fs::path folder = package::stage_folder(node_data, *node);
    fs::create_directories(folder);
    for (const coordinator::File& file : each.files) {
      if (file.name == kNodeFile || !coordinator::is_name(file.name)) {
        continue;
      }
      fs::copy_file(get(file), folder / file.name, fs::copy_options::overwrite_existing);
      if (file.name.ends_with(".json")) {
        package::set_cluster(folder / file.name, cluster);
      }
    }
    if (is_checkpoint) {
      package::write_trained(node_data, *node, trained_of(stored));
    } else {
      fs::rename(weights, package::trained_file(node_data, *node));
    }
  }
  fs::remove_all(node_data / "fetched");
  return *clusters.begin();
}

}  // namespace ravnest::control
