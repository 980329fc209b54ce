#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "ravnest/engine/interpreter.h"
#include "ravnest/package/checkpoint_file.h"
#include "ravnest/package/package.h"
#include "ravnest/package/safetensors.h"
#include "ravnest/provider/update_rule.h"

namespace ravnest::provider {

// Where a stage is in its run.
struct Checkpoint {
  std::string plan;
  std::string run;
  std::int64_t passes = 0;  // training passes learned from
  std::int64_t epoch = 0;
  engine::WeightMap weights;
  RuleState rule;
};

using package::checkpoint_path;

// Appears whole or not at all; tensors are shared until it is written.
void write_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& path);

// Nothing where there is none. Throws LocalFault for a file that is not one, and
// Error(kIo) where it cannot be read.
std::optional<Checkpoint> read_checkpoint(const std::filesystem::path& path);

package::StoredTensor to_stored(const at::Tensor& tensor);
at::Tensor from_stored(const package::StoredTensor& stored);

}  // namespace ravnest::provider
