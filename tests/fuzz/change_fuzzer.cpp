// Reads the input as what a server's log holds: changes, which are then made one by one to a state
// that has members and a job, and a snapshot.

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "ravnest/coordinator/json.h"
#include "tests/fuzz/passes.h"

namespace ravnest::coordinator {
namespace {

using graph::require;

const Hash kHash(64, 'a');

// Members a and b, and job 1 on both.
Durable small_state() {
  Durable durable;
  const StageShape stage{.last_op = 1, .sub_model = kHash};
  for (const Change& change : std::vector<Change>{
           MemberEnrolled{{.id = "a", .name = "a"}, ""},
           MemberEnrolled{{.id = "b", .name = "b"}, ""},
           JobSubmitted{.job = 1, .requester = "r", .name = "job", .program = kHash},
           PlanAsked{1, 1},
           PlanAdopted{1, {.id = "plan", .shapes = {{.stages = {stage, stage}}}}},
           LineupSet{1, 1, 0, 2, {"a", "b"}, {Origin::kFresh, Origin::kFresh}},
           JobMoved{1, Phase::kPreparing, ""},
           ClusterStarted{1, 1},
       }) {
    apply_change(durable, change);
  }
  return durable;
}

void read_log(std::string_view text) {
  const std::vector<Change> changes = read_changes(text);
  const std::string again = to_json(changes);
  require(to_json(read_changes(again)) == again);
  Durable durable = small_state();
  for (const Change& change : changes) {
    apply_change(durable, change);
  }
  // What the log leaves is a state that makes sense, or is refused as a whole.
  Durable derived = durable;
  derive(derived);
  require(derived == durable);
}

void read_snapshot(std::string_view text) {
  const Durable durable = read_durable(text);
  require(read_durable(to_json(durable)) == durable);
}

}  // namespace
}  // namespace ravnest::coordinator

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ravnest::graph::accepted([&] { ravnest::coordinator::read_log(text); });
  ravnest::graph::accepted([&] { ravnest::coordinator::read_snapshot(text); });
  return 0;
}
