#include "ravnest/package/trained.h"

#include <charconv>

#include "ravnest/base/error.h"

namespace ravnest::package {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRun = "run";
constexpr const char* kPasses = "passes";
constexpr const char* kInterrupted = "interrupted";

using Metadata = std::map<std::string, std::string>;

// What the file says of its place, to be compared with the node's.
Metadata place_of(const NodeConfig& node) {
  return {{"plan", node.plan},
          {"cluster", std::to_string(node.cluster)},
          {"stage", std::to_string(node.stage)},
          {"stages", std::to_string(node.stages)}};
}

const std::string& text_of(const Metadata& metadata, const std::string& key, const fs::path& file) {
  const auto found = metadata.find(key);
  if (found == metadata.end() || found->second.empty()) {
    throw_invalid("[package] '", file.string(), "': expected the metadata '", key,
                  "', which is missing.");
  }
  return found->second;
}

void check_place(const Metadata& metadata, const NodeConfig& node, const fs::path& file) {
  for (const auto& [key, expected] : place_of(node)) {
    const std::string& text = text_of(metadata, key, file);
    if (text != expected) {
      throw_invalid("[package] the weights of ", label_of(node), " in '", file.string(),
                    "' are of ", key, " ", text, ", and the node's ", key, " is ", expected,
                    ": train again with the plan as it is now.");
    }
  }
}

std::uint64_t passes_of(const Metadata& metadata, const fs::path& file) {
  const std::string& text = text_of(metadata, kPasses, file);
  std::uint64_t passes = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, passes);
  if (error != std::errc() || stop != end) {
    throw_invalid("[package] '", file.string(), "': expected the metadata 'passes' to be a number,",
                  " got '", text, "'.");
  }
  return passes;
}

}  // namespace

std::string label_of(const NodeConfig& node) {
  return concat("node_", node.id, " at ", node.address);
}

fs::path trained_file(const fs::path& node_data, const NodeConfig& node) {
  return stage_folder(node_data, node) / concat("submod_", node.stage, ".safetensors");
}

void write_trained(const fs::path& node_data, const NodeConfig& node, const TrainedStage& trained) {
  RAVNEST_CHECK(!trained.run.empty());
  StoredTensors stored{.tensors = trained.tensors, .metadata = place_of(node)};
  stored.metadata[kRun] = trained.run;
  stored.metadata[kPasses] = std::to_string(trained.passes);
  if (trained.is_interrupted) {
    stored.metadata[kInterrupted] = "true";
  }
  write_safetensors(stored, trained_file(node_data, node));
}

TrainedStage read_trained(const fs::path& node_data, const NodeConfig& node) {
  const fs::path file = trained_file(node_data, node);
  std::error_code error;
  if (fs::status(file, error).type() == fs::file_type::not_found) {
    throw_invalid("[package] ", label_of(node), " has not saved its weights: expected '",
                  file.string(), "'. Train with save=True first.");
  }
  StoredTensors stored = read_safetensors(file);
  check_place(stored.metadata, node, file);
  return {.run = text_of(stored.metadata, kRun, file),
          .passes = passes_of(stored.metadata, file),
          .is_interrupted = stored.metadata.contains(kInterrupted),
          .tensors = std::move(stored.tensors)};
}

}  // namespace ravnest::package
