// Reads the input as the weights that a root has trained. What is taken is written and read again
// as the same.

#include <cstdint>
#include <string>

#include "ravnest/package/trained.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/scratch_file.h"

namespace ravnest::package {
namespace {

// As the seeds say.
const NodeConfig kRoot{.address = "127.0.0.1:9000", .plan = "0123456789abcdef", .stages = 3};

void read() {
  const TrainedStage trained = read_trained(scratch_folder(), kRoot);
  require(!trained.run.empty());
  write_trained(scratch_folder(), kRoot, trained);
  const TrainedStage again = read_trained(scratch_folder(), kRoot);
  require(again.run == trained.run && again.passes == trained.passes &&
          again.is_interrupted == trained.is_interrupted &&
          again.tensors.size() == trained.tensors.size());
}

}  // namespace
}  // namespace ravnest::package

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest::package;
  static const auto kFile = [] {
    auto file = trained_file(ravnest::scratch_folder(), kRoot);
    std::filesystem::create_directories(file.parent_path());
    return file;
  }();
  if (size > 0) {  // an empty file cannot be mapped, and is Error(kIo)
    std::filesystem::remove(kFile);
    ravnest::write_bytes(kFile, data, size);
    ravnest::accepted([&] { read(); });
  }
  return 0;
}
