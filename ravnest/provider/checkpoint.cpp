#include "ravnest/provider/checkpoint.h"

#include <charconv>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/package/checkpoint_file.h"
#include "ravnest/provider/stopped.h"
#include "ravnest/provider/values.h"

namespace ravnest::provider {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWeight = package::kWeightPrefix;
constexpr const char* kRule = package::kRulePrefix;

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
  transport::Tensor plain = to_plain(tensor);
  return {.dtype = plain.dtype, .sizes = std::move(plain.shape), .data = std::move(plain.bytes)};
}

at::Tensor from_stored(const package::StoredTensor& stored) {
  return from_plain({.dtype = stored.dtype, .shape = stored.sizes, .bytes = stored.data}, at::kCPU)
      .clone();
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

namespace {

Checkpoint read_existing(const fs::path& path) {
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

}  // namespace

std::optional<Checkpoint> read_checkpoint(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return std::nullopt;
  }
  try {
    return read_existing(path);
  } catch (const std::invalid_argument& damaged) {
    throw LocalFault(damaged.what());
  }
}

}  // namespace ravnest::provider
