#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/coordinator/durable.h"

namespace ravnest::coordinator {

// One step of the durable state, as the log keeps it: what was decided, not why it came to that.
// So a later version of the server, which might decide otherwise, reads the same history.

struct ServerBooted {
  std::int64_t boot = 0;
};
struct TokenMade {
  Token token;
};
struct TokenDropped {
  Hash hash;
};
struct MemberEnrolled {
  Member member;
  Hash token;  // of which this takes one use; the last takes the token with it
};
struct MemberPaused {
  MemberId member;
  bool is_paused = false;
};
struct MemberRemoved {
  MemberId member;
};
struct JobSubmitted {
  JobId job = 0;
  MemberId requester;
  std::string name;
  Hash program;
  JobOptions options;
  std::int64_t at = 0;
  std::string key;
};
struct JobMoved {
  JobId job = 0;
  Phase phase = Phase::kQueued;  // one that is not over
  std::string reason;
};
struct PlanAsked {
  JobId job = 0;
  Epoch epoch = 0;
};
// Takes the place of the plan before, clusters included.
struct PlanAdopted {
  JobId job = 0;
  JobPlan plan;
};
// A new cluster, or another line-up of one; what its stages kept for the old one is let go.
struct LineupSet {
  JobId job = 0;
  ClusterId cluster = 0;
  std::int64_t shape = 0;
  Epoch epoch = 0;
  std::vector<MemberId> providers;  // by stage
  std::vector<Origin> origins;
};
struct PlaceVacated {
  JobId job = 0;
  ClusterId cluster = 0;
  std::int64_t stage = 0;
};
struct ClusterDissolved {
  JobId job = 0;
  ClusterId cluster = 0;
};
struct ClusterStarted {
  JobId job = 0;
  ClusterId cluster = 0;
};
struct CheckpointKept {
  JobId job = 0;
  ClusterId cluster = 0;
  std::int64_t stage = 0;
  std::int64_t version = 0;
  Hash artifact;
};
// All stages have it: it is the restore point, and older ones of its cluster are let go.
struct RestoreMoved {
  JobId job = 0;
  ClusterId cluster = 0;
  std::int64_t version = 0;
};
// Takes the place of the one before.
struct CurveKept {
  JobId job = 0;
  std::vector<CurvePoint> curve;
};
struct StageFailureCounted {
  JobId job = 0;
};
struct ResultKept {
  JobId job = 0;
  ClusterId cluster = 0;
  std::int64_t stage = 0;
  Hash artifact;
};
struct JobEnded {
  JobId job = 0;
  Phase phase = Phase::kDone;
  std::string reason;
  std::int64_t at = 0;
};
struct JobForgotten {
  JobId job = 0;
};
struct Noted {
  JobId job = 0;
  Note note;
};

using Change =
    std::variant<ServerBooted, TokenMade, TokenDropped, MemberEnrolled, MemberPaused, MemberRemoved,
                 JobSubmitted, JobMoved, PlanAsked, PlanAdopted, LineupSet, PlaceVacated,
                 ClusterDissolved, ClusterStarted, CheckpointKept, RestoreMoved,
                 StageFailureCounted, ResultKept, JobEnded, JobForgotten, Noted, CurveKept>;

// Makes the change; gives the artifacts that nothing refers to any more. Throws
// std::invalid_argument where the change does not fit the state (a damaged log): the state is
// then in an unspecified but valid condition.
std::vector<Hash> apply_change(Durable& durable, const Change& change);

}  // namespace ravnest::coordinator
