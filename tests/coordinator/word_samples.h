#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/coordinator/words.h"

namespace ravnest::coordinator {

// Every word with every field away from its default, and what it looks like on the wire. A whole
// number is an integer there, and no other number is whole.
template <typename Word>
using WordSamples = std::vector<std::pair<Word, nlohmann::json>>;

namespace samples {

using Json = nlohmann::json;

inline const Hash kHash(64, 'a');
inline const Post kPost{.seat = {.job = 2, .cluster = 3, .stage = 4}, .epoch = 5};
inline const Reach kReach{.host = "box", .port = 7000, .nonce = "0123", .was_reached = true};
inline const Peer kPeer{.provider = "p1", .name = "one", .address = "one:7000", .is_relayed = true};
inline const JobOptions kOptions{.seed = 1,
                                 .clusters = 2,
                                 .least_providers = 3,
                                 .most_providers = 4,
                                 .batch = 5,
                                 .optimizer = "sgd",
                                 .training = "{}",
                                 .wants_one_result = false};
inline const StageShape kStage{.first_op = 1,
                               .last_op = 2,
                               .memory_bytes = 3,
                               .sub_model = kHash,
                               .files = {{.name = "node.json", .hash = kHash}}};

inline const Json kPostJson = {{"seat", {{"job", 2}, {"cluster", 3}, {"stage", 4}}}, {"epoch", 5}};
inline const Json kReachJson = {
    {"host", "box"}, {"port", 7000}, {"nonce", "0123"}, {"was_reached", true}};
inline const Json kPeerJson = {
    {"provider", "p1"}, {"name", "one"}, {"address", "one:7000"}, {"is_relayed", true}};
inline const Json kOptionsJson = {
    {"seed", 1},  {"clusters", 2},      {"least_providers", 3}, {"most_providers", 4},
    {"batch", 5}, {"optimizer", "sgd"}, {"training", "{}"},     {"wants_one_result", false}};
inline const Json kFilesJson = Json::array({{{"name", "node.json"}, {"hash", kHash}}});
inline const Json kPieceJson = {{"first_op", 1}, {"last_op", 2}, {"artifact", kHash}};
inline const Json kStageJson = {{"first_op", 1},
                                {"last_op", 2},
                                {"memory_bytes", 3},
                                {"sub_model", kHash},
                                {"files", kFilesJson}};

}  // namespace samples

inline WordSamples<ProviderWord> provider_words() {
  using namespace samples;
  const Measurements measured{.ram_gb = 1.5,
                              .threads = 2,
                              .gflops = 3.5,
                              .mbps = 4.5,
                              .latency_ms = 5.5,
                              .links = {{"p1", {.mbps = 6.5, .latency_ms = 7.5}}}};
  const Report report{.version = 1,
                      .loss = 2.5,
                      .accuracy = 3.5,
                      .samples_per_second = 4.5,
                      .delay = 5.5,
                      .memory_bytes = 6,
                      .send_mbps = 7.5,
                      .receive_mbps = 8.5,
                      .computing = 0.25,
                      .waiting = 0.5,
                      .sending = 0.125,
                      .averaging = "averaging 3 with node_3"};
  return {
      {Hello{.protocol = 7, .program = "9.9", .reach = kReach, .measured = measured, .holds = 8},
       {{"word", "hello"},
        {"protocol", 7},
        {"program", "9.9"},
        {"reach", kReachJson},
        {"measured",
         {{"ram_gb", 1.5},
          {"threads", 2},
          {"gflops", 3.5},
          {"mbps", 4.5},
          {"latency_ms", 5.5},
          {"links", Json::array({Json::array({"p1", {{"mbps", 6.5}, {"latency_ms", 7.5}}})})}}},
        {"holds", 8}}},
      {StillHere{}, {{"word", "still_here"}}},
      {WantsToLeave{}, {{"word", "leave"}}},
      {IsReady{kPost}, {{"word", "ready"}, {"post", kPostJson}}},
      {Tells{kPost, report},
       {{"word", "report"},
        {"post", kPostJson},
        {"report",
         {{"version", 1},
          {"loss", 2.5},
          {"accuracy", 3.5},
          {"samples_per_second", 4.5},
          {"delay", 5.5},
          {"memory_bytes", 6},
          {"send_mbps", 7.5},
          {"receive_mbps", 8.5},
          {"computing", 0.25},
          {"waiting", 0.5},
          {"sending", 0.125},
          {"averaging", "averaging 3 with node_3"}}}}},
      {HasKept{kPost, {8, 9}}, {{"word", "kept"}, {"post", kPostJson}, {"versions", {8, 9}}}},
      {HasCheckpoint{kPost, 9, kHash},
       {{"word", "checkpoint"}, {"post", kPostJson}, {"version", 9}, {"artifact", kHash}}},
      {HasResult{kPost, kHash}, {{"word", "result"}, {"post", kPostJson}, {"artifact", kHash}}},
      {HasFailed{kPost, "why", true, true, "peer"},
       {{"word", "failed"},
        {"post", kPostJson},
        {"reason", "why"},
        {"is_memory", true},
        {"is_final", true},
        {"suspect", "peer"}}},
      {CannotReach{kPost, "peer", "why"},
       {{"word", "unreached"}, {"post", kPostJson}, {"peer", "peer"}, {"reason", "why"}}},
      {IsMeasurable{"0123"}, {{"word", "measurable"}, {"probe", "0123"}}},
      {HasMeasured{measured.links},
       {{"word", "measured"},
        {"links", Json::array({Json::array({"p1", {{"mbps", 6.5}, {"latency_ms", 7.5}}})})}}}};
}

inline WordSamples<ServerWord> server_words() {
  using namespace samples;
  const Assignment assignment{
      .seat = kPost.seat,
      .epoch = 5,
      .job_epoch = 6,
      .shape = 7,
      .is_running = true,
      .origin = Origin::kCheckpoint,
      .stage = kStage,
      .options = kOptions,
      .clusters = {{.id = 3, .shape = 7, .epoch = 5, .stages = {kPeer}}},
      .restore = RestorePoint{.cluster = 1,
                              .epoch = 2,
                              .version = 3,
                              .plan = "plan",
                              .pieces = {{.first_op = 1, .last_op = 2, .artifact = kHash}}},
      .feed = Feed{.requester = "r1", .address = "rita:1", .is_relayed = true}};
  return {
      {Greeting{.session = 1, .address = "box:7000", .is_relayed = true},
       {{"word", "greeting"}, {"session", 1}, {"address", "box:7000"}, {"is_relayed", true}}},
      {Hold{assignment},
       {{"word", "hold"},
        {"assignment",
         {{"seat", kPostJson["seat"]},
          {"epoch", 5},
          {"job_epoch", 6},
          {"shape", 7},
          {"is_running", true},
          {"origin", "checkpoint"},
          {"stage", kStageJson},
          {"options", kOptionsJson},
          {"clusters",
           Json::array(
               {{{"id", 3}, {"shape", 7}, {"epoch", 5}, {"stages", Json::array({kPeerJson})}}})},
          {"restore",
           {{"cluster", 1},
            {"epoch", 2},
            {"version", 3},
            {"plan", "plan"},
            {"pieces", Json::array({kPieceJson})}}},
          {"feed", {{"requester", "r1"}, {"address", "rita:1"}, {"is_relayed", true}}}}}}},
      {Begin{kPost}, {{"word", "begin"}, {"post", kPostJson}}},
      {Keep{kPost}, {{"word", "keep"}, {"post", kPostJson}}},
      {Send{kPost, 9}, {{"word", "send"}, {"post", kPostJson}, {"version", 9}}},
      {Drop{9}, {{"word", "drop"}, {"job", 9}}},
      {MayGo{}, {{"word", "may_go"}}},
      {Called{9}, {{"word", "called"}, {"call", 9}}},
      {Measure{{{.provider = "p1", .address = "one:7000", .probe = "0123"}}},
       {{"word", "measure"},
        {"neighbours",
         Json::array({{{"provider", "p1"}, {"address", "one:7000"}, {"probe", "0123"}}})}}}};
}

inline WordSamples<RequesterWord> requester_words() {
  using namespace samples;
  return {
      {Offer{.protocol = 7, .program = "9.9", .job = 8, .reach = kReach},
       {{"word", "offer"}, {"protocol", 7}, {"program", "9.9"}, {"job", 8}, {"reach", kReachJson}}},
      {StillHere{}, {{"word", "still_here"}}}};
}

inline WordSamples<FeedWord> feed_words() {
  using namespace samples;
  return {
      {Standing{.phase = Phase::kRunning,
                .reason = "why",
                .plan = "plan",
                .restored_cluster = 1,
                .restored = 2,
                .is_reached = true,
                .clusters = {{3, 0}, {4, 6}},
                .roots = {{.cluster = 3, .epoch = 5, .is_restored = true, .provider = kPeer}}},
       {{"word", "standing"},
        {"phase", "running"},
        {"reason", "why"},
        {"plan", "plan"},
        {"restored_cluster", 1},
        {"restored", 2},
        {"is_reached", true},
        {"clusters", Json::array({{3, 0}, {4, 6}})},
        {"roots",
         Json::array(
             {{{"cluster", 3}, {"epoch", 5}, {"is_restored", true}, {"provider", kPeerJson}}})}}},
      {Called{9}, {{"word", "called"}, {"call", 9}}}};
}

inline WordSamples<Question> questions() {
  using namespace samples;
  return {{WantsToken{.role = Role::kRequester, .uses = 2, .minutes = 3},
           {{"word", "token"}, {"role", "requester"}, {"uses", 2}, {"minutes", 3}}},
          {WantsMemberGone{"box"}, {{"word", "remove"}, {"member", "box"}}},
          {WantsPause{.member = "box", .is_paused = false},
           {{"word", "pause"}, {"member", "box"}, {"is_paused", false}}},
          {WantsJob{.name = "digits", .program = kHash, .options = kOptions, .key = "k1"},
           {{"word", "submit"},
            {"name", "digits"},
            {"program", kHash},
            {"options", kOptionsJson},
            {"key", "k1"}}},
          {WantsCancel{1}, {{"word", "cancel"}, {"job", 1}}},
          {WantsForget{2}, {{"word", "forget"}, {"job", 2}}},
          {WantsResults{3}, {{"word", "results"}, {"job", 3}}},
          {WantsView{}, {{"word", "view"}}},
          {WantsJobView{4}, {{"word", "job_view"}, {"job", 4}}},
          {WantsPool{}, {{"word", "pool"}}},
          {WantsTime{}, {{"word", "time"}}}};
}

inline WordSamples<Results> results() {
  using namespace samples;
  Results results{.plan = "plan"};
  ResultPiece& piece = results.pieces.emplace_back();
  piece.piece = {.first_op = 1, .last_op = 2, .artifact = kHash};
  piece.files = kStage.files;
  return {{results,
           {{"plan", "plan"},
            {"pieces", Json::array({{{"piece", kPieceJson}, {"files", kFilesJson}}})}}}};
}

}  // namespace ravnest::coordinator
