#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/coordinator/durable.h"
#include "ravnest/coordinator/limits.h"
#include "ravnest/planner/pool.h"

namespace ravnest::coordinator {

// Given with every event. Liveness is judged by the receiver's steady clock alone.
struct Now {
  Milliseconds steady{0};
  std::int64_t wall = 0;  // seconds, for people and for tokens
};

// What a provider found out about itself.
struct Measurements {
  double ram_gb = 0.0;
  std::int64_t threads = 1;
  double gflops = 0.0;  // 0: not measured
  double mbps = 0.0;
  double latency_ms = 1.0;                  // to the server
  std::map<MemberId, planner::Link> links;  // to peers

  bool operator==(const Measurements&) const = default;
};

enum class Presence : std::uint8_t {
  kAway,     // lost, left, or not heard of since the server began
  kAwaited,  // held a stage when the server ended; may come back to it
  kSilent,   // for a while
  kPresent,
};

struct Provider {
  Presence presence = Presence::kAway;
  std::int64_t session = 0;  // of the connection; a word of another session is refused
  std::string address;       // for peers
  bool is_relayed = false;   // accepts no connection: links go through the server
  Measurements measured;
  // By which peers may measure their link to it, at its address, while it holds no stage: 32 digits
  // that members alone are told. Empty: they may not just now.
  std::string probe;
  Milliseconds heard{0};
  JobId reserved = 0;  // for the job that is being planned
  bool is_leaving = false;
  Milliseconds let_go_by{0};  // leaving or pausing with a stage; 0: is not
  std::int64_t strikes = 0;
  Milliseconds banned_until{0};

  bool operator==(const Provider&) const = default;
};

// How a stage is doing. Of the moment: kept for those who watch, gone with the server.
struct Report {
  std::int64_t version = 0;  // updates so far
  double loss = 0.0;         // of the leaf
  double accuracy = -1.0;    // in percent, of the last validation; -1: there was none
  double samples_per_second = 0.0;
  double delay = 0.0;
  std::int64_t memory_bytes = 0;
  double send_mbps = 0.0;
  double receive_mbps = 0.0;
  double computing = 0.0;  // shares of the time, as are the next two
  double waiting = 0.0;
  double sending = 0.0;
  std::string averaging;  // the last with other clusters, in words; empty: there was none

  bool operator==(const Report&) const = default;
};

// Where the requester of a job can be reached.
struct Feed {
  MemberId requester;
  std::string address;
  bool is_relayed = false;

  bool operator==(const Feed&) const = default;
};

// From the first to the last time that something happened.
struct Span {
  Milliseconds first{0};
  Milliseconds last{0};

  bool operator==(const Span&) const = default;
};

// Checkpoints of a cluster that are on its machines, and the version that they are to send.
struct Kept {
  std::map<std::int64_t, std::set<std::int64_t>> versions;  // by stage
  std::int64_t asked = -1;                                  // -1: none

  bool operator==(const Kept&) const = default;
};

// What the server knows of the moment. A restart begins it anew.
struct Live {
  std::map<MemberId, Provider> providers;
  std::int64_t last_session = 0;
  Milliseconds ticked{0};
  std::optional<Milliseconds> woken;  // of the last tick that came far too late
  std::optional<Span> arrivals;       // of providers, until a tick finds that they are over
  // Who does not reach whom, for how long; and whose words go through the relay since.
  std::map<std::pair<MemberId, MemberId>, Span> unreached;
  std::set<std::pair<MemberId, MemberId>> relayed;
  std::map<std::pair<JobId, ClusterId>, std::set<std::int64_t>> ready;  // stages
  std::map<JobId, std::map<ClusterId, Kept>> kept;                      // of line-ups as they are
  std::map<JobId, std::set<MemberId>> tried;  // pools that cannot hold the waiting job
  std::set<JobId> stale;                      // whose providers hear of new addresses at a tick
  // Of failures that another might not fare better with: who may be to blame for all of them.
  std::map<JobId, std::set<MemberId>> suspects;
  std::map<JobId, std::set<MemberId>> accusers;  // who named a neighbour for what it sent
  std::map<JobId, Feed> feeds;
  std::map<MemberId, Report> reports;  // of the stage that it holds
  std::map<JobId, std::vector<CurvePoint>> curves;
  std::deque<Note> lines;  // of the server itself: who came, who went

  bool operator==(const Live&) const = default;
};

struct State {
  Durable durable;
  Live live;
};

// May be given a stage now.
bool is_free(const State& state, const MemberId& id, Now now);

}  // namespace ravnest::coordinator
