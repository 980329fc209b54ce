#include "ravnest/package/checkpoint_file.h"

#include <algorithm>

#include "ravnest/base/error.h"

namespace ravnest::package {

namespace {

// Where an epoch ends, stages that are ahead have begun the next one; they may differ in that.
void check_belongs(const StoredTensors& piece, const StoredTensors& first) {
  for (const char* key : {"run", "passes", "rule/optimizer"}) {
    const auto expected = first.metadata.find(key);
    const auto found = piece.metadata.find(key);
    const bool is_there = expected != first.metadata.end();
    if (is_there != (found != piece.metadata.end()) ||
        (is_there && expected->second != found->second)) {
      throw_invalid("[package] expected checkpoints with the same ", key, ", got '",
                    is_there ? expected->second : "", "' and '",
                    found == piece.metadata.end() ? "" : found->second, "'.");
    }
  }
}

// Whether a tensor of the optimizer is one of this weight's.
bool belongs_to(std::string_view rule_name, const std::string& weight) {
  return rule_name.starts_with(weight + "/") || rule_name.ends_with("/" + weight);
}

void take_weight(const std::vector<StoredTensors>& pieces, const std::string& name,
                 StoredTensors& gathered) {
  const std::string key = kWeightPrefix + name;
  const auto piece = std::ranges::find_if(
      pieces, [&](const StoredTensors& each) { return each.tensors.contains(key); });
  if (piece == pieces.end()) {
    throw_invalid("[package] expected a checkpoint that has the weight '", name, "', got none.");
  }
  gathered.tensors.emplace(key, piece->tensors.at(key));
  const std::string_view prefix = kRulePrefix;
  for (const auto& [rule_key, tensor] : piece->tensors) {
    if (rule_key.starts_with(prefix) &&
        belongs_to(std::string_view(rule_key).substr(prefix.size()), name)) {
      gathered.tensors.emplace(rule_key, tensor);
    }
  }
}

}  // namespace

std::filesystem::path checkpoint_path(const std::filesystem::path& node_data,
                                      const NodeConfig& node) {
  return stage_folder(node_data, node) / concat("submod_", node.stage, "_checkpoint.safetensors");
}

std::vector<std::string> checkpoint_names(const graph::Program& program) {
  std::vector<std::string> names;
  for (const graph::Weight& weight : program.weights) {
    const std::string& name = program.canonical(weight).name;
    if (std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

StoredTensors gather_checkpoint(const std::vector<StoredTensors>& pieces,
                                const std::vector<std::string>& names, const std::string& plan) {
  if (pieces.empty() || !pieces[0].metadata.contains("passes")) {
    throw_invalid("[package] expected checkpoints to gather from, got ",
                  pieces.empty() ? "none." : "something else.");
  }
  StoredTensors gathered;
  gathered.metadata = pieces[0].metadata;
  gathered.metadata["plan"] = plan;
  for (const StoredTensors& piece : pieces) {
    check_belongs(piece, pieces[0]);
  }
  for (const std::string& name : names) {
    take_weight(pieces, name, gathered);
  }
  return gathered;
}

void gather_checkpoint(const std::vector<std::filesystem::path>& pieces,
                       const std::vector<std::string>& names, const std::string& plan,
                       const std::filesystem::path& path) {
  std::vector<StoredTensors> read;
  read.reserve(pieces.size());
  for (const std::filesystem::path& piece : pieces) {
    read.push_back(read_safetensors(piece));
  }
  write_safetensors(gather_checkpoint(read, names, plan), path);
}

}  // namespace ravnest::package
