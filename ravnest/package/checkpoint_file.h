#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ravnest/graph/program.h"
#include "ravnest/package/package.h"
#include "ravnest/package/safetensors.h"

namespace ravnest::package {

// A checkpoint of a stage on disk: tensors "weight/<name>" and, of the optimizer, "rule/<name>",
// where that names the weight first or last ("exp_avg/<weight>"); metadata plan, run, passes, epoch
// and "rule/<key>" for what the optimizer keeps beside.
inline constexpr const char* kWeightPrefix = "weight/";
inline constexpr const char* kRulePrefix = "rule/";

// submod_<stage>_checkpoint.safetensors in the node's folder.
std::filesystem::path checkpoint_path(const std::filesystem::path& node_data,
                                      const NodeConfig& node);

// What a stage's checkpoint has to have: the names that its graphs use, in order.
std::vector<std::string> checkpoint_names(const graph::Program& program);

// The checkpoint of a stage, made of those of stages that were cut elsewhere, all after the same
// passes of one run. Of a weight that several have, the first counts: its home is before its
// copies. Texts are those of the first piece. Throws std::invalid_argument naming a weight that no
// piece has, and where the pieces do not belong together.
StoredTensors gather_checkpoint(const std::vector<StoredTensors>& pieces,
                                const std::vector<std::string>& names, const std::string& plan);

// The same with files; also throws as reading and writing them does.
void gather_checkpoint(const std::vector<std::filesystem::path>& pieces,
                       const std::vector<std::string>& names, const std::string& plan,
                       const std::filesystem::path& path);

}  // namespace ravnest::package
