#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "ravnest/package/package.h"
#include "ravnest/package/safetensors.h"

namespace ravnest::package {

// A node's weights after training: submod_<k>.safetensors in its stage's folder, with the
// metadata plan, cluster, stage, stages, run and passes, and interrupted where it was.
struct TrainedStage {
  std::string run;           // equal on all nodes of a cluster's run
  std::uint64_t passes = 0;  // that were applied
  // The run was ended before its training was: stages may be some passes apart.
  bool is_interrupted = false;
  // Parameters and buffers by the names of the model's state dict. Of tied names the first is
  // enough; a parameter that lives elsewhere (NodeConfig::tied) may be there, and is not used.
  std::map<std::string, StoredTensor> tensors;
};

std::filesystem::path trained_file(const std::filesystem::path& node_data, const NodeConfig& node);

// Throws as write_safetensors does; the file appears whole or not at all.
void write_trained(const std::filesystem::path& node_data, const NodeConfig& node,
                   const TrainedStage& trained);

// Throws std::invalid_argument naming the node where it has not saved yet or the file is of
// another plan or stage; else as read_safetensors does. Tensors are views of the mapped file.
TrainedStage read_trained(const std::filesystem::path& node_data, const NodeConfig& node);

// "node_1 at 0.0.0.0:8081", for messages.
std::string label_of(const NodeConfig& node);

}  // namespace ravnest::package
