// Reads the input as a place's node file, and its first bytes as the line-up that it is for. A node
// that is made of both is one that the stage's process reads, or refuses.

#include <cstdint>
#include <string>

#include "ravnest/agent/lineup.h"
#include "ravnest/base/error.h"
#include "ravnest/package/place_files.h"
#include "tests/fuzz/finding.h"
#include "tests/fuzz/scratch_file.h"

namespace ravnest::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHead = 6;

coordinator::Assignment read_head(const std::uint8_t* head) {
  coordinator::Assignment assignment;
  assignment.seat = {.job = 1, .cluster = head[2] % 4, .stage = head[3] % 5 - 1};
  assignment.shape = head[4] % 3;
  for (int c = 0; c < head[0] % 4; ++c) {
    coordinator::ClusterLineup& cluster = assignment.clusters.emplace_back();
    cluster.id = c;
    cluster.shape = (head[4] >> c) % 3;
    cluster.epoch = 7 + c;
    for (int k = 0; k < head[1] % 5; ++k) {
      const bool is_known = ((head[5] >> (c + k)) & 1) == 0;
      const std::string name = concat("provider-", c, "-", k);
      cluster.stages.push_back(
          {.provider = name, .name = name, .address = is_known ? name + ":9000" : ""});
    }
  }
  return assignment;
}

void read(const std::uint8_t* head, const fs::path& file) {
  coordinator::Assignment assignment = read_head(head);
  const coordinator::Assignment former = assignment;
  fill_gaps(assignment, &former);
  const auto node =
      with_machines(package::read_place(file, scratch_folder() / "read"), assignment,
                    "127.0.0.1:9001", [](const coordinator::Peer& peer) { return peer.address; });
  require(rank_of(assignment) == node.cluster && providers_here(assignment) >= 1);
  static_cast<void>(members_of(assignment));
  const fs::path again = scratch_folder() / "again";
  package::write_machine(node, again);
  accepted([&] { require(package::read_node(again, concat("node_", node.id)) == node); });
  fs::remove_all(again);
}

}  // namespace
}  // namespace ravnest::agent

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ravnest::agent::kHead;
  if (size <= kHead) {
    return 0;
  }
  const auto file = ravnest::scratch_folder() / "node.json";
  ravnest::write_bytes(file, data + kHead, size - kHead);
  ravnest::accepted([&] { ravnest::agent::read(data, file); });
  return 0;
}
