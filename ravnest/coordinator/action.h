#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/coordinator/state.h"

namespace ravnest::coordinator {

// What the shells do once a decision is in the log. A provider that is not connected any more is
// passed over: what it missed is told when it joins.

// To a provider that joined: the session to use.
struct Welcome {
  MemberId provider;
  std::int64_t session = 0;
};
// It is not believed any more: end the connection. It may join again.
struct CloseSession {
  MemberId provider;
  std::int64_t session = 0;
  std::string reason;
};
// It may go: nothing is lost by it.
struct LetGo {
  MemberId provider;
  std::int64_t session = 0;
};
// Measure the links to these, while it has nothing else to do.
struct MeasureLinks {
  MemberId provider;
  std::int64_t session = 0;
  std::vector<MemberId> peers;
};

// The part of the pool that a plan may use.
struct PoolEntry {
  MemberId provider;
  Measurements measured;
};
// Answered by PlanMade or PlanFailed, with this epoch.
struct MakePlan {
  JobId job = 0;
  Epoch epoch = 0;
  Hash program;
  JobOptions options;
  std::vector<PoolEntry> pool;
  bool goes_on = false;  // it has begun: fewer clusters than wanted are better than none
};

// Hold this place; see make_assignment (assignment.h) for the whole. Takes the place of whatever
// the provider did before; one that it holds already, in the same epoch, tells of new peers.
struct Assign {
  MemberId provider;
  std::int64_t session = 0;
  Seat seat;
  Epoch epoch = 0;  // of the cluster
};
// Every stage of the cluster is ready: train.
struct Start {
  MemberId provider;
  std::int64_t session = 0;
  Seat seat;
  Epoch epoch = 0;
};
// Keep a checkpoint as soon as all stages can at one version.
struct KeepCheckpoint {
  MemberId provider;
  std::int64_t session = 0;
  Seat seat;
  Epoch epoch = 0;
};
// Every stage has a checkpoint of this version: send it.
struct SendCheckpoint {
  MemberId provider;
  std::int64_t session = 0;
  Seat seat;
  Epoch epoch = 0;
  std::int64_t version = 0;
};
// Hold nothing any more.
struct Release {
  MemberId provider;
  std::int64_t session = 0;
  JobId job = 0;  // 0: whichever it is
};

struct DropArtifact {
  Hash hash;
};
// Something about the job has changed, for those who watch.
struct Tell {
  JobId job = 0;
};

using Action = std::variant<Welcome, CloseSession, LetGo, MeasureLinks, MakePlan, Assign, Start,
                            KeepCheckpoint, SendCheckpoint, Release, DropArtifact, Tell>;

}  // namespace ravnest::coordinator
