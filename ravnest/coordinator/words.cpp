#include "ravnest/coordinator/words.h"

#include <array>

#include "ravnest/coordinator/field_json.h"
#include "ravnest/coordinator/fields.h"

namespace ravnest::coordinator {

template <typename Visit, Is<planner::Link> T>
void fields(Visit& visit, T& of) {
  visit("mbps", of.mbps);
  visit("latency_ms", of.latency_ms);
}

template <typename Visit, Is<Measurements> T>
void fields(Visit& visit, T& of) {
  visit("ram_gb", of.ram_gb);
  visit("threads", of.threads);
  visit("gflops", of.gflops);
  visit("mbps", of.mbps);
  visit("latency_ms", of.latency_ms);
  visit("links", of.links);
}

template <typename Visit, Is<Report> T>
void fields(Visit& visit, T& of) {
  visit("version", of.version);
  visit("loss", of.loss);
  visit("accuracy", of.accuracy);
  visit("samples_per_second", of.samples_per_second);
  visit("delay", of.delay);
  visit("memory_bytes", of.memory_bytes);
  visit("send_mbps", of.send_mbps);
  visit("receive_mbps", of.receive_mbps);
  visit("computing", of.computing);
  visit("waiting", of.waiting);
  visit("sending", of.sending);
  visit("averaging", of.averaging);
}

template <typename Visit, Is<Seat> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("cluster", of.cluster);
  visit("stage", of.stage);
}

template <typename Visit, Is<Peer> T>
void fields(Visit& visit, T& of) {
  visit("provider", of.provider);
  visit("name", of.name);
  visit("address", of.address);
  visit("is_relayed", of.is_relayed);
}

template <typename Visit, Is<ClusterLineup> T>
void fields(Visit& visit, T& of) {
  visit("id", of.id);
  visit("shape", of.shape);
  visit("epoch", of.epoch);
  visit("stages", of.stages);
}

template <typename Visit, Is<Feed> T>
void fields(Visit& visit, T& of) {
  visit("requester", of.requester);
  visit("address", of.address);
  visit("is_relayed", of.is_relayed);
}

template <typename Visit, Is<Assignment> T>
void fields(Visit& visit, T& of) {
  visit("seat", of.seat);
  visit("epoch", of.epoch);
  visit("job_epoch", of.job_epoch);
  visit("shape", of.shape);
  visit("is_running", of.is_running);
  visit("origin", of.origin);
  visit("stage", of.stage);
  visit("options", of.options);
  visit("clusters", of.clusters);
  visit("restore", of.restore);
  visit("feed", of.feed);
}

template <typename Visit, Is<Reach> T>
void fields(Visit& visit, T& of) {
  visit("host", of.host);
  visit("port", of.port);
  visit("nonce", of.nonce);
  visit("was_reached", of.was_reached);
}

template <typename Visit, Is<Post> T>
void fields(Visit& visit, T& of) {
  visit("seat", of.seat);
  visit("epoch", of.epoch);
}

template <typename Visit, Is<Hello> T>
void fields(Visit& visit, T& of) {
  visit("protocol", of.protocol);
  visit("program", of.program);
  visit("reach", of.reach);
  visit("measured", of.measured);
  visit("holds", of.holds);
}

template <typename T>
concept IsEmpty = Is<T, StillHere> || Is<T, WantsToLeave> || Is<T, MayGo> || Is<T, WantsView> ||
                  Is<T, WantsPool> || Is<T, WantsTime>;
template <typename Visit, IsEmpty T>
void fields(Visit& /*visit*/, T& /*of*/) {}

template <typename T>
concept IsPost = Is<T, IsReady> || Is<T, Begin> || Is<T, Keep>;
template <typename Visit, IsPost T>
void fields(Visit& visit, T& of) {
  visit("post", of.post);
}

template <typename Visit, Is<Tells> T>
void fields(Visit& visit, T& of) {
  visit("post", of.post);
  visit("report", of.report);
}

template <typename Visit, Is<HasKept> T>
void fields(Visit& visit, T& of) {
  visit("post", of.post);
  visit("versions", of.versions);
}

template <typename Visit, Is<Send> T>
void fields(Visit& visit, T& of) {
  visit("post", of.post);
  visit("version", of.version);
}

template <typename Visit, Is<HasCheckpoint> T>
void fields(Visit& visit, T& of) {
  visit("post", of.post);
  visit("version", of.version);
  visit("artifact", of.artifact);
}

template <typename Visit, Is<HasResult> T>
void fields(Visit& visit, T& of) {
  visit("post", of.post);
  visit("artifact", of.artifact);
}

template <typename Visit, Is<HasFailed> T>
void fields(Visit& visit, T& of) {
  visit("post", of.post);
  visit("reason", of.reason);
  visit("is_memory", of.is_memory);
  visit("is_final", of.is_final);
  visit("suspect", of.suspect);
}

template <typename Visit, Is<CannotReach> T>
void fields(Visit& visit, T& of) {
  visit("post", of.post);
  visit("peer", of.peer);
  visit("reason", of.reason);
}

template <typename Visit, Is<IsMeasurable> T>
void fields(Visit& visit, T& of) {
  visit("probe", of.probe);
}

template <typename Visit, Is<HasMeasured> T>
void fields(Visit& visit, T& of) {
  visit("links", of.links);
}

template <typename Visit, Is<Neighbour> T>
void fields(Visit& visit, T& of) {
  visit("provider", of.provider);
  visit("address", of.address);
  visit("probe", of.probe);
}

template <typename Visit, Is<Measure> T>
void fields(Visit& visit, T& of) {
  visit("neighbours", of.neighbours);
}

template <typename Visit, Is<Greeting> T>
void fields(Visit& visit, T& of) {
  visit("session", of.session);
  visit("address", of.address);
  visit("is_relayed", of.is_relayed);
}

template <typename Visit, Is<Hold> T>
void fields(Visit& visit, T& of) {
  visit("assignment", of.assignment);
}

template <typename T>
concept IsJob = Is<T, Drop> || Is<T, WantsCancel> || Is<T, WantsForget> || Is<T, WantsResults> ||
                Is<T, WantsJobView>;
template <typename Visit, IsJob T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
}

template <typename Visit, Is<Called> T>
void fields(Visit& visit, T& of) {
  visit("call", of.call);
}

template <typename Visit, Is<Offer> T>
void fields(Visit& visit, T& of) {
  visit("protocol", of.protocol);
  visit("program", of.program);
  visit("job", of.job);
  visit("reach", of.reach);
}

template <typename Visit, Is<Root> T>
void fields(Visit& visit, T& of) {
  visit("cluster", of.cluster);
  visit("epoch", of.epoch);
  visit("is_restored", of.is_restored);
  visit("provider", of.provider);
}

template <typename Visit, Is<Standing> T>
void fields(Visit& visit, T& of) {
  visit("phase", of.phase);
  visit("reason", of.reason);
  visit("plan", of.plan);
  visit("restored_cluster", of.restored_cluster);
  visit("restored", of.restored);
  visit("is_reached", of.is_reached);
  visit("clusters", of.clusters);
  visit("roots", of.roots);
}

template <typename Visit, Is<WantsToken> T>
void fields(Visit& visit, T& of) {
  visit("role", of.role);
  visit("uses", of.uses);
  visit("minutes", of.minutes);
}

template <typename Visit, Is<WantsMemberGone> T>
void fields(Visit& visit, T& of) {
  visit("member", of.member);
}

template <typename Visit, Is<WantsPause> T>
void fields(Visit& visit, T& of) {
  visit("member", of.member);
  visit("is_paused", of.is_paused);
}

template <typename Visit, Is<WantsJob> T>
void fields(Visit& visit, T& of) {
  visit("name", of.name);
  visit("program", of.program);
  visit("options", of.options);
  visit("key", of.key);
}

template <typename Visit, Is<ResultPiece> T>
void fields(Visit& visit, T& of) {
  visit("piece", of.piece);
  visit("files", of.files);
}

template <typename Visit, Is<Results> T>
void fields(Visit& visit, T& of) {
  visit("plan", of.plan);
  visit("pieces", of.pieces);
}

namespace {

template <typename Variant>
using Names = std::array<std::string_view, std::variant_size_v<Variant>>;

// In the order of the variants.
constexpr Names<ProviderWord> kProviderWords = {"hello",  "still_here", "leave",      "ready",
                                                "report", "kept",       "checkpoint", "result",
                                                "failed", "unreached",  "measurable", "measured"};
constexpr Names<ServerWord> kServerWords = {"greeting", "hold",   "begin",  "keep",   "send",
                                            "drop",     "may_go", "called", "measure"};
constexpr Names<RequesterWord> kRequesterWords = {"offer", "still_here"};
constexpr Names<FeedWord> kFeedWords = {"standing", "called"};
constexpr Names<Question> kQuestions = {"token",    "remove", "pause",   "submit",
                                        "cancel",   "forget", "results", "view",
                                        "job_view", "pool",   "time"};

constexpr const char* kKey = "word";

}  // namespace

std::string to_text(const ProviderWord& word) { return write_variant(word, kProviderWords, kKey); }
std::string to_text(const ServerWord& word) { return write_variant(word, kServerWords, kKey); }
std::string to_text(const RequesterWord& word) {
  return write_variant(word, kRequesterWords, kKey);
}
std::string to_text(const FeedWord& word) { return write_variant(word, kFeedWords, kKey); }
std::string to_text(const Question& question) { return write_variant(question, kQuestions, kKey); }
std::string to_text(const Results& results) { return write(results); }

ProviderWord read_provider_word(std::string_view text) {
  return read_variant<ProviderWord>(parse_json(text), kProviderWords, kKey, "word");
}
ServerWord read_server_word(std::string_view text) {
  return read_variant<ServerWord>(parse_json(text), kServerWords, kKey, "word");
}
RequesterWord read_requester_word(std::string_view text) {
  return read_variant<RequesterWord>(parse_json(text), kRequesterWords, kKey, "word");
}
FeedWord read_feed_word(std::string_view text) {
  return read_variant<FeedWord>(parse_json(text), kFeedWords, kKey, "word");
}
Question read_question(std::string_view text) {
  return read_variant<Question>(parse_json(text), kQuestions, kKey, "question");
}
Results read_results(std::string_view text) {
  Results results;
  read(parse_json(text), "results", results);
  return results;
}

std::int64_t node_id_of(Epoch epoch, std::int64_t stage) {
  return epoch * static_cast<std::int64_t>(kMostStages) + stage;
}

}  // namespace ravnest::coordinator
