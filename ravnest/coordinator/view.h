#pragma once

#include <cstdint>
#include <string>

#include "ravnest/coordinator/state.h"

namespace ravnest::coordinator {

// The state for people: the dashboard's and `status`'s JSON, and Prometheus text. Values from
// outside are text in JSON and escaped in labels; who shows them as HTML must still treat them as
// text. Never a token, nor its hash.

// For whom: the server's owner, or a member.
struct Viewer {
  bool is_owner = true;
  MemberId member;
};
// Owners see every job whole, a requester its own, a provider the one that it has a stage of.
bool may_see(const State& state, const Viewer& viewer, const Job& job);

// {"server", "providers", "jobs", "lines"}; times are seconds of the wall clock. `port` is the one
// that members connect to. Of a job that the viewer may not see there is the number and the phase;
// of those that are over the newest 64, without notes.
std::string view(const State& state, Now now, std::int64_t port = 0, const Viewer& viewer = {});
// One job, with its curve and all its notes. Throws std::invalid_argument where there is none.
std::string job_view(const State& state, JobId job);
std::string metrics(const State& state);

std::string_view to_string(Presence presence);
// As between the quotes of a Prometheus label.
std::string escape_label(std::string_view text);

}  // namespace ravnest::coordinator
