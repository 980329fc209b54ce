#pragma once

#include <filesystem>
#include <functional>
#include <variant>

#include "ravnest/coordinator/action.h"
#include "ravnest/coordinator/artifacts.h"
#include "ravnest/coordinator/event.h"

namespace ravnest::coordinator {

using PlanAnswer = std::variant<PlanMade, PlanFailed>;

struct PlanJobOptions {
  std::filesystem::path scratch;  // a folder of ours, for files on their way
  // Called now and then; what it throws ends the planning.
  std::function<void()> check_interrupted;
};

// Makes the plan that was asked for: reads the Program among the artifacts, groups and cuts, and
// puts every stage's files there. Takes seconds for large models: not on the server's own thread.
//
// A stage's files: the sub-model, and by name "node.json" (see package.h) and those of its folder.
// They are written for places, not for machines: in them a peer's address is
// "cluster-<shape>.stage-<k>:1", and a node's id the place's number in the plan.
//
// A Program that cannot be read, and a pool that cannot hold it, are answers. Throws Error(kIo).
PlanAnswer plan_job(const MakePlan& ask, Artifacts& artifacts, const PlanJobOptions& options);

}  // namespace ravnest::coordinator
