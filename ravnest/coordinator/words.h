#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ravnest/coordinator/assignment.h"
#include "ravnest/coordinator/state.h"

namespace ravnest::coordinator {

// What the server and its members say to each other, beside tensors and files: JSON objects, one
// for each message of proto/control.proto. docs/protocol.md tells the story.

inline constexpr std::int64_t kControlProtocol = 4;

// A provider's session ---------------------------------------------------------------------------

// Where somebody can be reached, as it believes.
struct Reach {
  std::string host;  // empty: the one that the server sees
  std::int64_t port = 0;
  // 32 digits that it tells whoever connects there, until it is welcomed: so the server finds out
  // whether others can reach it. Empty: that was found out before.
  std::string nonce;
  bool was_reached = false;
};

// A cluster's stage, as of an epoch of the cluster.
struct Post {
  Seat seat;
  Epoch epoch = 0;
};

// From the provider. The first is Hello, at once.
struct Hello {
  std::int64_t protocol = kControlProtocol;
  std::string program;  // its version
  Reach reach;
  Measurements measured;
  Epoch holds = 0;  // the epoch of the stage that it still has; 0: none
};
struct StillHere {};
struct WantsToLeave {};
struct IsReady {
  Post post;
};
struct Tells {
  Post post;
  Report report;
};
// All the checkpoints of its place that it has, at most kMostKept. Said whenever there are others.
struct HasKept {
  Post post;
  std::vector<std::int64_t> versions;
};
// One that was asked for is on the server.
struct HasCheckpoint {
  Post post;
  std::int64_t version = 0;
  Hash artifact;
};
struct HasResult {
  Post post;
  Hash artifact;
};
struct HasFailed {
  Post post;
  std::string reason;
  bool is_memory = false;
  bool is_final = false;
  MemberId suspect;  // of its line-up; empty: none
};
// A peer of its line-up, or the requester, does not answer. Said again as long as that is so.
struct CannotReach {
  Post post;
  MemberId peer;
  std::string reason;
};
// It holds no stage, and whoever knows this secret (32 digits) may measure the link to it at its
// address. Said again when the secret is another.
struct IsMeasurable {
  std::string probe;
};
struct HasMeasured {
  std::map<MemberId, planner::Link> links;
};
using ProviderWord =
    std::variant<Hello, StillHere, WantsToLeave, IsReady, Tells, HasKept, HasCheckpoint, HasResult,
                 HasFailed, CannotReach, IsMeasurable, HasMeasured>;

// To the provider. The first is Greeting.
struct Greeting {
  std::int64_t session = 0;
  std::string address;
  bool is_relayed = false;
};
struct Hold {
  Assignment assignment;
};
struct Begin {
  Post post;
};
struct Keep {
  Post post;
};
// Send the checkpoint of this version; older ones are not asked for any more.
struct Send {
  Post post;
  std::int64_t version = 0;
};
struct Drop {
  JobId job = 0;  // 0: whichever it is
};
struct MayGo {};
// Somebody wants to reach this machine through the server: open a pipe with this id.
struct Called {
  std::int64_t call = 0;
};
// Others without a stage: measure the links to them, one after the other, until there is a stage.
struct Neighbour {
  MemberId provider;
  std::string address;
  std::string probe;  // its secret
};
struct Measure {
  std::vector<Neighbour> neighbours;
};
using ServerWord = std::variant<Greeting, Hold, Begin, Keep, Send, Drop, MayGo, Called, Measure>;

// A requester's feed -----------------------------------------------------------------------------

// From the requester, at once. Silence for long is a requester that is gone.
struct Offer {
  std::int64_t protocol = kControlProtocol;
  std::string program;
  JobId job = 0;
  Reach reach;
};
using RequesterWord = std::variant<Offer, StillHere>;

// Whom to feed.
struct Root {
  ClusterId cluster = 0;
  Epoch epoch = 0;
  bool is_restored = false;  // in this epoch it began with weights of a restore point
  Peer provider;
};
// To the requester: how its job stands; at every change.
struct Standing {
  Phase phase = Phase::kQueued;
  std::string reason;
  std::string plan;                // its id
  ClusterId restored_cluster = 0;  // whose weights the restore point is made of
  std::int64_t restored = 0;  // passes behind the restore point: earlier ones are not needed again
  bool is_reached = false;    // roots connect to the requester; else by relay
  // All that there are, and the version that each began with: its own first pass.
  std::map<ClusterId, std::int64_t> clusters;
  std::vector<Root> roots;  // of clusters that run
};
using FeedWord = std::variant<Standing, Called>;

// Questions --------------------------------------------------------------------------------------

// By the owner of the server.
struct WantsToken {
  Role role = Role::kProvider;
  std::int64_t uses = 1;
  std::int64_t minutes = 60;
};
struct WantsMemberGone {
  std::string member;  // its name or id
};
// By the owner, or of itself by a provider, with an empty name.
struct WantsPause {
  std::string member;
  bool is_paused = true;
};
// By the owner or a requester; a job belongs to who submitted it.
struct WantsJob {
  std::string name;
  Hash program;
  JobOptions options;
  std::string key;  // drawn by the requester: who asks again with it gets the same job
};
struct WantsCancel {
  JobId job = 0;
};
struct WantsForget {
  JobId job = 0;
};
struct WantsResults {
  JobId job = 0;
};
// By any member.
struct WantsView {};
struct WantsJobView {
  JobId job = 0;
};
struct WantsPool {};
struct WantsTime {};
using Question =
    std::variant<WantsToken, WantsMemberGone, WantsPause, WantsJob, WantsCancel, WantsForget,
                 WantsResults, WantsView, WantsJobView, WantsPool, WantsTime>;

// The answer to WantsResults.
struct ResultPiece {
  Piece piece;
  std::vector<File> files;  // that say what it is; see plan_job.h
};
struct Results {
  std::string plan;
  std::vector<ResultPiece> pieces;
};

std::string to_text(const ProviderWord& word);
std::string to_text(const ServerWord& word);
std::string to_text(const RequesterWord& word);
std::string to_text(const FeedWord& word);
std::string to_text(const Question& question);
std::string to_text(const Results& results);

// Strict: throw std::invalid_argument.
ProviderWord read_provider_word(std::string_view text);
ServerWord read_server_word(std::string_view text);
RequesterWord read_requester_word(std::string_view text);
FeedWord read_feed_word(std::string_view text);
Question read_question(std::string_view text);
Results read_results(std::string_view text);

// What a node calls itself on the wire: its cluster's epoch is in it, so that nobody of another
// epoch is mistaken for it.
std::int64_t node_id_of(Epoch epoch, std::int64_t stage);
inline constexpr const char* kRequesterName = "requester";

}  // namespace ravnest::coordinator
