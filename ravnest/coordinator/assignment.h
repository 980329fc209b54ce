#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ravnest/coordinator/action.h"
#include "ravnest/coordinator/state.h"

namespace ravnest::coordinator {

struct Peer {
  MemberId provider;
  std::string name;
  std::string address;  // empty: not known yet after a restart; the one from before holds
  bool is_relayed = false;

  bool operator==(const Peer&) const = default;
};

// A cluster as its peers see it.
struct ClusterLineup {
  ClusterId id = 0;
  std::int64_t shape = 0;  // clusters of one shape are cut alike
  Epoch epoch = 0;
  std::vector<Peer> stages;

  bool operator==(const ClusterLineup&) const = default;
};

// All that a provider must know to hold its place.
//
// The node file among `files` was written for the shape, not for machines: it calls its peers
// "cluster-<shape>.stage-<k>:1". Who they are says the line-up; a cluster that was added later has
// the part in every ring that the shape's own has.
struct Assignment {
  Seat seat;
  Epoch epoch = 0;      // of the cluster: pipelines accept this one alone
  Epoch job_epoch = 0;  // of the whole line-up: rings accept this one
  std::int64_t shape = 0;
  bool is_running = false;  // as if Start had been heard
  Origin origin = Origin::kFresh;
  StageShape stage;
  JobOptions options;
  std::vector<ClusterLineup> clusters;
  std::optional<RestorePoint> restore;  // where the origin is a checkpoint
  std::optional<Feed> feed;             // of a root

  bool operator==(const Assignment&) const = default;
};

// What others must know to reach a provider.
Peer find_peer(const State& state, const MemberId& id);

// Of the state as it is now; nothing where the provider has no place.
std::optional<Assignment> make_assignment(const State& state, const MemberId& provider);

}  // namespace ravnest::coordinator
