#pragma once

#include <string>
#include <vector>

#include "ravnest/coordinator/action.h"
#include "ravnest/coordinator/change.h"
#include "ravnest/coordinator/event.h"
#include "ravnest/coordinator/state.h"

namespace ravnest::coordinator {

struct Decision {
  bool is_accepted = true;
  std::string reason;           // a sentence for people: why, or why not
  std::vector<Change> changes;  // already made to the state; they belong into the log
  std::vector<Action> actions;  // to be done once they are there
  JobId job = 0;                // that a SubmitJob made
  std::int64_t session = 0;     // that a Join opened
};

// What the server does about an event. Deterministic: no clock, no files, no chance. The state is
// changed in place; of its durable part by the changes that are returned, and by nothing else.
// What is not accepted changes nothing, but may have actions (a session to be closed).
//
// After every decision: a provider has at most one place; every place of an active job belongs to
// a provider that is there, or awaited after a restart; epochs only grow; a job that is over does
// not change until it is forgotten.
//
// A Beat is O(log providers); a Tick looks at every provider once.
Decision decide(State& state, const Event& event, Now now);

}  // namespace ravnest::coordinator
