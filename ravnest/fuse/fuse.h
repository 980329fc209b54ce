#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ravnest/package/safetensors.h"

namespace ravnest::fuse {

// One tensor under one name. Names of one tensor share its bytes.
struct StateTensor {
  std::string name;
  package::StoredTensor tensor;
};

// The weights of a whole model, in the order of its own state dict.
struct StateDict {
  std::vector<StateTensor> tensors;
  std::map<std::string, std::string> metadata;  // plan, cluster, run, passes
  std::int64_t parameters = 0;                  // numbers in them, tied ones once
  std::int64_t nbytes = 0;                      // of all tensors, tied ones once
};

// Puts together what the nodes of a cluster have saved (package/trained.h); a tied parameter
// is as the stage it lives in has it. Tensors are views of the mapped files. Throws
// std::invalid_argument where there is no plan or no such cluster, where a node has not saved
// (naming it), where files are of different plans, runs or passes (naming what differs; stages of
// a run that was interrupted may be some passes apart), where nothing was trained, and where a
// tensor is missing or of another dtype or shape than the model's.
StateDict fuse_cluster(const std::filesystem::path& node_data, std::size_t cluster);

// Writes `path`, a .pt or .pth that torch.load(weights_only=True) opens as a dict of tensors,
// and the same as .safetensors beside it; makes the folder. Equal input gives equal bytes, and
// each file appears whole or not at all. Throws std::invalid_argument for another extension,
// Error(kIo) where the disk refuses.
void write_state_dict(const StateDict& state, const std::filesystem::path& path);

// The name of the .safetensors file.
std::filesystem::path beside(const std::filesystem::path& path);

}  // namespace ravnest::fuse
