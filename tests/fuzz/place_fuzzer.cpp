// Reads the input as one of the small files of a stage; its first byte says which. A node file that
// is taken is written and read again as the same.

#include <array>
#include <cstdint>
#include <string>

#include "ravnest/package/package.h"
#include "ravnest/package/place_files.h"
#include "ravnest/package/stage_files.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/scratch_file.h"
#include "tests/package/plans.h"

namespace ravnest::package {
namespace {

namespace fs = std::filesystem;

// The folder of a root, as planned.
struct Planned {
  Planned() : node_data(scratch_folder() / "planned") {
    write_plan(make_program(), make_two_clusters(), node_data);
    node = read_node(node_data, "node_10");
    folder = stage_folder(node_data, node);
  }
  fs::path node_data;
  NodeConfig node;
  fs::path folder;
};

void read_node_file(const fs::path& file) {
  const NodeConfig node = read_place(file, scratch_folder() / "read");
  const fs::path again = scratch_folder() / "again";
  write_machine(node, again);
  require(read_node(again, "node_" + std::to_string(node.id)) == node);
  fs::remove_all(again);
}

// Beside the others, which are as they were planned.
void read_beside(const Planned& planned, const char* name, const fs::path& file) {
  const fs::path target = planned.folder / name;
  const fs::path kept = planned.folder / "kept";
  fs::rename(target, kept);
  fs::copy_file(file, target);
  accepted([&] { static_cast<void>(read_stage(planned.node_data, planned.node)); });
  accepted([&] { static_cast<void>(read_state_dict(planned.node_data, planned.node)); });
  accepted([&] { set_cluster(target, 1); });
  fs::rename(kept, target);
}

}  // namespace
}  // namespace ravnest::package

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest::package;
  static const Planned kPlanned;
  static constexpr std::array kNames = {"submod_0_input.json", "submod_0_output.json",
                                        "model_inputs.json"};
  if (size < 2) {
    return 0;
  }
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (const auto at = text.find("PLAN"); at != std::string::npos) {
    text.replace(at, 4, kPlanned.node.plan);  // nobody guesses it
  }
  const auto file = ravnest::scratch_folder() / "file";
  ravnest::write_bytes(file, reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  const std::size_t which = data[0] % (kNames.size() + 1);
  if (which == kNames.size()) {
    ravnest::accepted([&] { read_node_file(file); });
  } else {
    read_beside(kPlanned, kNames[which], file);
  }
  return 0;
}
