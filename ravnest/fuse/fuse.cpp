#include "ravnest/fuse/fuse.h"

#include <functional>
#include <numeric>

#include "ravnest/base/error.h"
#include "ravnest/fuse/pt_file.h"
#include "ravnest/package/package.h"
#include "ravnest/package/trained.h"

namespace ravnest::fuse {

namespace fs = std::filesystem;

namespace {

using package::NodeConfig;
using package::StateName;
using package::StoredTensor;
using package::TrainedStage;

struct Saved {
  const NodeConfig* node;
  TrainedStage trained;
};

void check_same(const Saved& first, const Saved& other, const char* what,
                const std::string& of_first, const std::string& of_other) {
  if (of_first != of_other) {
    throw_invalid("[fuse] the weights of cluster ", first.node->cluster, " are of different ", what,
                  ": ", of_first, " (", package::label_of(*first.node), ") and ", of_other, " (",
                  package::label_of(*other.node), "). Fuse what one run has saved.");
  }
}

std::vector<Saved> read_saved(const fs::path& node_data, const std::vector<NodeConfig>& nodes) {
  std::vector<Saved> saved;
  for (const NodeConfig& node : nodes) {
    saved.push_back({.node = &node, .trained = package::read_trained(node_data, node)});
    const TrainedStage& first = saved.front().trained;
    const TrainedStage& last = saved.back().trained;
    check_same(saved.front(), saved.back(), "runs", first.run, last.run);
    if (!first.is_interrupted || !last.is_interrupted) {
      check_same(saved.front(), saved.back(), "passes", std::to_string(first.passes),
                 std::to_string(last.passes));
    }
    if (last.passes == 0) {
      throw_invalid("[fuse] expected weights that were trained, got those that ",
                    package::label_of(node), " began with. Train with save=True first.");
    }
  }
  return saved;
}

// By name, as the stage has it where it lives: the first that does not say it lives elsewhere.
std::map<std::string, StoredTensor> gather(std::vector<Saved> saved) {
  std::map<std::string, StoredTensor> tensors;
  for (Saved& each : saved) {
    for (const auto& [name, holder] : each.node->tied) {
      each.trained.tensors.erase(name);
    }
    tensors.merge(each.trained.tensors);
  }
  return tensors;
}

const StoredTensor& tensor_of(const StateName& entry,
                              const std::map<std::string, StoredTensor>& tensors) {
  const auto home = tensors.find(entry.tied_to.value_or(entry.name));
  const auto found = home == tensors.end() ? tensors.find(entry.name) : home;
  if (found == tensors.end()) {
    throw_invalid("[fuse] no provider has saved '", entry.name, "' of the model's state dict.");
  }
  const StoredTensor& tensor = found->second;
  if (graph::long_name_of(tensor.dtype) != entry.dtype || tensor.sizes != entry.sizes) {
    const auto shape = [](const std::vector<std::int64_t>& sizes) {
      std::string text;
      for (const std::int64_t size : sizes) {
        text += concat(text.empty() ? "" : ", ", size);
      }
      return "[" + text + "]";
    };
    throw_invalid("[fuse] expected '", entry.name, "' to be ", entry.dtype, " ", shape(entry.sizes),
                  " as in the model, got ", graph::long_name_of(tensor.dtype), " ",
                  shape(tensor.sizes), ".");
  }
  return tensor;
}

void make_folder_of(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) {
    fs::create_directories(path.parent_path(), error);
  }
  if (error) {
    throw Error(ErrorKind::kIo, concat("[fuse] cannot make the folder '",
                                       path.parent_path().string(), "': ", error.message(), "."));
  }
}

}  // namespace

StateDict fuse_cluster(const fs::path& node_data, std::size_t cluster) {
  const std::vector<NodeConfig> nodes = package::read_cluster(node_data, cluster);
  std::vector<Saved> saved = read_saved(node_data, nodes);
  StateDict state{.metadata = {{"plan", nodes[0].plan},
                               {"cluster", std::to_string(cluster)},
                               {"run", saved[0].trained.run},
                               {"passes", std::to_string(saved[0].trained.passes)}}};
  const std::map<std::string, StoredTensor> tensors = gather(std::move(saved));
  for (const StateName& entry : package::read_state_dict(node_data, nodes[0])) {
    const StoredTensor& tensor = tensor_of(entry, tensors);
    state.tensors.push_back({.name = entry.name, .tensor = tensor});
    if (!entry.tied_to) {
      state.parameters += entry.is_parameter
                              ? std::accumulate(entry.sizes.begin(), entry.sizes.end(),
                                                std::int64_t{1}, std::multiplies())
                              : 0;
      state.nbytes += static_cast<std::int64_t>(tensor.data.size());
    }
  }
  return state;
}

void write_state_dict(const StateDict& state, const fs::path& path) {
  if (path.extension() != ".pt" && path.extension() != ".pth") {
    throw_invalid("[fuse] expected a file that ends with .pt or .pth, got '", path.string(), "'.");
  }
  make_folder_of(path);
  package::StoredTensors stored{.metadata = state.metadata};
  stored.metadata["format"] = "pt";  // which some of those who read it ask for
  for (const auto& [name, tensor] : state.tensors) {
    stored.tensors.emplace(name, tensor);
  }
  package::write_safetensors(stored, beside(path));
  write_pt(state, path);
}

fs::path beside(const fs::path& path) { return fs::path(path).replace_extension(".safetensors"); }

}  // namespace ravnest::fuse
