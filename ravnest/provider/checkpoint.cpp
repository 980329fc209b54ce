#include "ravnest/provider/checkpoint.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <charconv>
#include <memory>

#include "ravnest/base/error.h"
#include "ravnest/engine/convert.h"

namespace ravnest::provider {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWeight = "weight/";
constexpr const char* kRule = "rule/";

std::int64_t number_in(const package::StoredTensors& stored, const std::string& key,
                       const fs::path& path) {
  const auto found = stored.metadata.find(key);
  std::int64_t number = -1;
  if (found != stored.metadata.end()) {
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  if (number < 0) {
    throw_invalid("[provider] '", path.string(), "' is no checkpoint: it lacks '", key, "'.");
  }
  return number;
}

}  // namespace

package::StoredTensor to_stored(const at::Tensor& tensor) {
  const auto kept = std::make_shared<const at::Tensor>(tensor.detach().cpu().contiguous());
  const auto* data = static_cast<const std::byte*>(kept->const_data_ptr());
  return {.dtype = engine::from_torch(kept->scalar_type()),
          .sizes = kept->sizes().vec(),
          .data = Bytes(kept, {data, kept->nbytes()})};
}

at::Tensor from_stored(const package::StoredTensor& stored) {
  const auto options = at::TensorOptions().dtype(engine::to_torch(stored.dtype));
  if (stored.data.empty()) {
    return at::empty(stored.sizes, options);
  }
  auto* data = const_cast<std::byte*>(stored.data.data());
  return at::from_blob(data, stored.sizes, [kept = stored.data](void*) {}, options).clone();
}

fs::path checkpoint_path(const fs::path& node_data, const package::NodeConfig& node) {
  return package::stage_folder(node_data, node) /
         concat("submod_", node.stage, "_checkpoint.safetensors");
}

void write_checkpoint(const Checkpoint& checkpoint, const fs::path& path) {
  package::StoredTensors stored;
  stored.metadata = {{"plan", checkpoint.plan},
                     {"run", checkpoint.run},
                     {"passes", std::to_string(checkpoint.passes)},
                     {"epoch", std::to_string(checkpoint.epoch)}};
  for (const auto& [key, text] : checkpoint.rule.texts) {
    stored.metadata[kRule + key] = text;
  }
  for (const auto& [name, tensor] : checkpoint.weights) {
    stored.tensors[kWeight + name] = to_stored(tensor);
  }
  for (const auto& [name, tensor] : checkpoint.rule.tensors) {
    stored.tensors[kRule + name] = to_stored(tensor);
  }
  package::write_safetensors(stored, path);
}

std::optional<Checkpoint> read_checkpoint(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return std::nullopt;
  }
  const package::StoredTensors stored = package::read_safetensors(path);
  Checkpoint checkpoint{.passes = number_in(stored, "passes", path),
                        .epoch = number_in(stored, "epoch", path)};
  for (const auto& [key, text] : stored.metadata) {
    if (key == "plan") {
      checkpoint.plan = text;
    } else if (key == "run") {
      checkpoint.run = text;
    } else if (key.starts_with(kRule)) {
      checkpoint.rule.texts[key.substr(std::string(kRule).size())] = text;
    }
  }
  for (const auto& [name, tensor] : stored.tensors) {
    if (name.starts_with(kWeight)) {
      checkpoint.weights.emplace(name.substr(std::string(kWeight).size()), from_stored(tensor));
    } else if (name.starts_with(kRule)) {
      checkpoint.rule.tensors.emplace(name.substr(std::string(kRule).size()), from_stored(tensor));
    }
  }
  return checkpoint;
}

}  // namespace ravnest::provider
