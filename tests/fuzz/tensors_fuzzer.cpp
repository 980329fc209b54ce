// Reads the input as a .safetensors file: weights, checkpoints. What is taken can be walked
// through, is written and read again as the same, and may serve as a piece of a checkpoint.

#include <algorithm>
#include <cstdint>

#include "ravnest/package/checkpoint_file.h"
#include "ravnest/package/safetensors.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/scratch_file.h"

namespace ravnest::package {
namespace {

bool is_equal(const StoredTensors& a, const StoredTensors& b) {
  return a.metadata == b.metadata &&
         std::ranges::equal(a.tensors, b.tensors, [](const auto& x, const auto& y) {
           return x.first == y.first && x.second.dtype == y.second.dtype &&
                  x.second.sizes == y.second.sizes &&
                  std::ranges::equal(x.second.data.view(), y.second.data.view());
         });
}

void read(const std::filesystem::path& path) {
  const StoredTensors stored = read_safetensors(path);
  const std::filesystem::path again = scratch_folder() / "again";
  write_safetensors(stored, again);
  require(is_equal(read_safetensors(again), stored));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : stored.tensors) {
    if (name.starts_with(kWeightPrefix)) {
      names.push_back(name.substr(std::string(kWeightPrefix).size()));
    }
  }
  accepted([&] {
    const StoredTensors whole = gather_checkpoint({stored, stored}, names, "plan");
    require(whole.tensors.size() >= names.size());
  });
}

}  // namespace
}  // namespace ravnest::package

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = ravnest::scratch_folder() / "tensors";
  ravnest::write_bytes(path, data, size);
  if (size > 0) {  // an empty file cannot be mapped, and is Error(kIo)
    ravnest::accepted([&] { ravnest::package::read(path); });
  }
  return 0;
}
