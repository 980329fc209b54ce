#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ravnest::coordinator {

// What the server knows and may not forget. It changes by apply_change() alone (change.h), so that
// the log of changes brings it back exactly. Plain data; who decides what changes is decide.h.

using MemberId = std::string;
using JobId = std::int64_t;
using ClusterId = std::int64_t;  // unique in its job, never used again
// Who holds what, as of when: every change of a cluster's line-up takes the next number of the
// whole server. A word that carries an older one comes from somebody who was replaced.
using Epoch = std::int64_t;
using Hash = std::string;  // SHA-256, 64 digits

enum class Role : std::uint8_t { kProvider, kRequester };

struct Member {
  MemberId id;
  std::string name;
  Role role = Role::kProvider;
  std::int64_t enrolled_at = 0;  // seconds of the wall clock
  bool is_paused = false;        // its owner wants the machine back

  bool operator==(const Member&) const = default;
};

// An invitation. The secret itself is never here.
struct Token {
  Hash hash;
  Role role = Role::kProvider;
  std::int64_t uses = 1;  // that are left
  std::int64_t expires_at = 0;

  bool operator==(const Token&) const = default;
};

struct JobOptions {
  std::int64_t seed = 0;
  std::int64_t clusters = 0;         // 0: as many as fit
  std::int64_t least_providers = 1;  // to begin; one that has begun goes on with fewer
  std::int64_t most_providers = 0;   // 0: all that are free
  std::int64_t batch = 0;            // 0: that of the capture
  std::string optimizer = "adam";
  std::string training;  // what providers make of the rest; not looked into here
  // Those of one cluster are the job's result. Else every cluster that trains is waited for, and
  // what each gave is kept.
  bool wants_one_result = true;

  bool operator==(const JobOptions&) const = default;
};

struct File {
  std::string name;
  Hash hash;

  bool operator==(const File&) const = default;
};

// A stage as it is cut, whoever holds it.
struct StageShape {
  std::int64_t first_op = 0;
  std::int64_t last_op = 0;
  std::int64_t memory_bytes = 0;
  Hash sub_model;           // empty once the job has ended
  std::vector<File> files;  // what else a node must know, by name

  bool operator==(const StageShape&) const = default;
};

struct ClusterShape {
  std::vector<StageShape> stages;

  bool operator==(const ClusterShape&) const = default;
};

struct JobPlan {
  std::string id;
  std::vector<ClusterShape> shapes;

  bool operator==(const JobPlan&) const = default;
};

// Where a place's weights come from.
enum class Origin : std::uint8_t {
  kFresh,       // the sub-model, as the requester gave it
  kKept,        // what this provider has
  kRing,        // the holders in other clusters
  kCheckpoint,  // the job's restore point
};

struct Place {
  MemberId provider;  // empty: vacant
  MemberId former;    // who was here before that; likely has the sub-model
  Origin origin = Origin::kFresh;

  bool operator==(const Place&) const = default;
};

struct Cluster {
  ClusterId id = 0;
  std::int64_t shape = 0;   // index into the plan's
  Epoch epoch = 0;          // since when this line-up stands
  bool is_running = false;  // every place was ready, and told to start
  std::vector<Place> places;
  std::map<std::int64_t, std::map<std::int64_t, Hash>> pending;  // version, stage: checkpoint
  std::map<std::int64_t, Hash> results;                          // by stage: final weights

  bool operator==(const Cluster&) const = default;
};

// The weights of one stage.
struct Piece {
  std::int64_t first_op = 0;
  std::int64_t last_op = 0;
  Hash artifact;

  bool operator==(const Piece&) const = default;
};

// A checkpoint that every stage of one cluster has at the same version.
struct RestorePoint {
  ClusterId cluster = 0;
  Epoch epoch = 0;
  std::int64_t version = 0;
  std::string plan;  // its id
  std::vector<Piece> pieces;

  bool operator==(const RestorePoint&) const = default;
};

enum class Phase : std::uint8_t {
  kQueued,
  kPlanning,
  kPreparing,  // providers fetch their sub-models
  kRunning,
  kEnding,  // final weights arrive
  kPaused,  // was planned before, and waits for providers
  kDone,
  kFailed,
  kCancelled,
};

struct Note {
  std::int64_t at = 0;  // seconds of the wall clock
  std::string text;

  bool operator==(const Note&) const = default;
};

// How good the model was after so many updates.
struct CurvePoint {
  std::int64_t version = 0;
  double loss = 0.0;
  double accuracy = -1.0;  // in percent, of the last validation; -1: there was none

  bool operator==(const CurvePoint&) const = default;
};

// While it is preparing, running or ending, every place of every cluster has a provider; in any
// other phase none has.
struct Job {
  JobId id = 0;
  MemberId requester;
  std::string name;
  std::string key;  // by which its requester asks for it again; empty: it does not
  Hash program;     // empty once the job has ended
  JobOptions options;
  std::int64_t submitted_at = 0;
  std::int64_t ended_at = 0;
  Phase phase = Phase::kQueued;
  std::string reason;  // of the phase
  Epoch epoch = 0;     // of the last change
  std::optional<JobPlan> plan;
  ClusterId last_cluster = 0;
  std::vector<Cluster> clusters;
  std::optional<RestorePoint> restore;
  std::vector<Piece> results;
  std::int64_t failures = 0;  // of stages, since the restore point
  std::vector<Note> notes;
  std::vector<CurvePoint> curve;  // as of the restore point, or the end; thinned

  bool operator==(const Job&) const = default;
};

// Where a provider works.
struct Seat {
  JobId job = 0;
  ClusterId cluster = 0;
  std::int64_t stage = 0;

  bool operator==(const Seat&) const = default;
};

struct Durable {
  std::int64_t boot = 0;  // how often the server was started
  Epoch epoch = 0;        // the last that was given
  JobId last_job = 0;
  std::map<MemberId, Member> members;
  std::map<Hash, Token> tokens;
  std::map<JobId, Job> jobs;

  // Derived from the rest, kept by apply_change().
  std::map<Hash, std::int64_t> references;  // artifacts in use
  std::map<MemberId, Seat> seats;

  bool operator==(const Durable&) const = default;
};

// Rebuilds what is derived. Throws std::invalid_argument where the rest contradicts itself.
void derive(Durable& durable);

bool is_over(Phase phase);    // done, failed, cancelled
bool is_active(Phase phase);  // preparing, running, ending

Job* find_job(Durable& durable, JobId id);
const Job* find_job(const Durable& durable, JobId id);
Cluster* find_cluster(Job& job, ClusterId id);
const Cluster* find_cluster(const Job& job, ClusterId id);
const ClusterShape& shape_of(const Job& job, const Cluster& cluster);
bool has_result(const Cluster& cluster);  // every stage gave its weights

// Words for people, JSON and metrics: "preparing".
std::string_view to_string(Phase phase);
std::string_view to_string(Role role);
std::string_view to_string(Origin origin);

// 64 digits of lower-case hexadecimal.
bool is_hash(std::string_view text);
// 1 to 64 letters, digits, '.', '_', '-', beginning with a letter or digit.
bool is_name(std::string_view text);

}  // namespace ravnest::coordinator
