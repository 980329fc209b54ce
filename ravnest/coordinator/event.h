#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/coordinator/state.h"

namespace ravnest::coordinator {

// What happens to the server. Who says it was proven by the shell (certificate, token); what it
// says is judged here.

// The process has started and has read its log.
struct Boot {};
// Several times a second.
struct Tick {};

struct MakeToken {
  Token token;
};
// A token's holder has shown its secret; `id` is that of its new certificate.
struct Enrol {
  Hash token;
  MemberId id;
  std::string name;
};
// By the server's owner.
struct RemoveMember {
  MemberId member;
};

// A provider has connected.
struct Join {
  MemberId provider;
  std::string address;
  bool is_relayed = false;
  Measurements measured;
  Epoch holds = 0;  // of the assignment that it still has, weights and all; 0: none
};
struct Beat {
  MemberId provider;
  std::int64_t session = 0;
};
// Its connection is gone.
struct Closed {
  MemberId provider;
  std::int64_t session = 0;
};
// It wants to go: its stage is handed over first.
struct Leave {
  MemberId provider;
  std::int64_t session = 0;
};
// Peers that know this secret may measure their links to it, until it is given a stage.
struct Measurable {
  MemberId provider;
  std::int64_t session = 0;
  std::string probe;
};
// It has measured these.
struct LinksMeasured {
  MemberId provider;
  std::int64_t session = 0;
  std::map<MemberId, planner::Link> links;
};
// The owner of the machine wants it back, or lends it again.
struct PauseProvider {
  MemberId provider;
};
struct ResumeProvider {
  MemberId provider;
};

struct SubmitJob {
  MemberId requester;
  std::string name;
  Hash program;  // is among the artifacts
  JobOptions options;
  // The same once more is the same job: its requester did not hear the answer. Empty: none is.
  std::string key;
};
// By the requester; empty: by the server's owner.
struct CancelJob {
  JobId job = 0;
  MemberId by;
};
struct ForgetJob {
  JobId job = 0;
  MemberId by;
};
// The requester has connected, and has data for the job; or is gone.
struct FeedOffered {
  JobId job = 0;
  MemberId requester;
  Feed feed;
};
struct FeedGone {
  JobId job = 0;
  MemberId requester;
};

struct PlannedCluster {
  std::size_t shape = 0;            // index into the plan's: clusters that are cut alike share one
  std::vector<MemberId> providers;  // by stage

  bool operator==(const PlannedCluster&) const = default;
};
// The answers to MakePlan.
struct PlanMade {
  JobId job = 0;
  Epoch epoch = 0;
  JobPlan plan;
  std::vector<PlannedCluster> clusters;
};
struct PlanFailed {
  JobId job = 0;
  Epoch epoch = 0;
  std::string reason;
  bool is_final = false;  // the Program is to blame, not the pool
};

// Who says it, and as holder of what. The epoch is the cluster's.
struct FromStage {
  MemberId provider;
  std::int64_t session = 0;
  JobId job = 0;
  ClusterId cluster = 0;
  Epoch epoch = 0;
  std::int64_t stage = 0;
};
// Has its sub-model and its weights.
struct StageReady {
  FromStage from;
};
struct StageReport {
  FromStage from;
  Report report;
};
// Its machine has checkpoints of these versions, and of no others.
struct StageKept {
  FromStage from;
  std::vector<std::int64_t> versions;
};
// The artifact, which was asked for, is on the server.
struct StageCheckpoint {
  FromStage from;
  std::int64_t version = 0;
  Hash artifact;
};
// Training is over; the artifact, final weights, is on the server.
struct StageResult {
  FromStage from;
  Hash artifact;
};
struct StageFailed {
  FromStage from;
  std::string reason;
  bool is_memory = false;  // it ran out
  bool is_final = false;   // nobody else would fare better
  MemberId suspect;        // the peer that may be to blame; empty: none
};

// A peer of its line-up, or the requester, did not answer it just now.
struct StageUnreached {
  FromStage from;
  MemberId peer;
  std::string reason;
};

using Event =
    std::variant<Boot, Tick, MakeToken, Enrol, RemoveMember, Join, Beat, Closed, Leave, Measurable,
                 LinksMeasured, PauseProvider, ResumeProvider, SubmitJob, CancelJob, ForgetJob,
                 FeedOffered, FeedGone, PlanMade, PlanFailed, StageReady, StageReport, StageKept,
                 StageCheckpoint, StageResult, StageFailed, StageUnreached>;

}  // namespace ravnest::coordinator
