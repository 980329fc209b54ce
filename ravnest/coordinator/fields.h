#pragma once

#include <array>
#include <concepts>
#include <string_view>
#include <type_traits>

#include "ravnest/coordinator/change.h"
#include "ravnest/coordinator/durable.h"

namespace ravnest::coordinator {

// The fields of what the log keeps, each named once: the writer and the strict reader (json.cpp)
// go through the same list. What is derived (Durable's counts and seats) is not among them.

template <typename T, typename Plain>
concept Is = std::same_as<std::remove_const_t<T>, Plain>;

template <typename Visit, Is<Member> T>
void fields(Visit& visit, T& of) {
  visit("id", of.id);
  visit("name", of.name);
  visit("role", of.role);
  visit("enrolled_at", of.enrolled_at);
  visit("is_paused", of.is_paused);
}

template <typename Visit, Is<Token> T>
void fields(Visit& visit, T& of) {
  visit("hash", of.hash);
  visit("role", of.role);
  visit("uses", of.uses);
  visit("expires_at", of.expires_at);
}

template <typename Visit, Is<JobOptions> T>
void fields(Visit& visit, T& of) {
  visit("seed", of.seed);
  visit("clusters", of.clusters);
  visit("least_providers", of.least_providers);
  visit("most_providers", of.most_providers);
  visit("batch", of.batch);
  visit("optimizer", of.optimizer);
  visit("training", of.training);
  visit("wants_one_result", of.wants_one_result);
}

template <typename Visit, Is<File> T>
void fields(Visit& visit, T& of) {
  visit("name", of.name);
  visit("hash", of.hash);
}

template <typename Visit, Is<StageShape> T>
void fields(Visit& visit, T& of) {
  visit("first_op", of.first_op);
  visit("last_op", of.last_op);
  visit("memory_bytes", of.memory_bytes);
  visit("sub_model", of.sub_model);
  visit("files", of.files);
}

template <typename Visit, Is<ClusterShape> T>
void fields(Visit& visit, T& of) {
  visit("stages", of.stages);
}

template <typename Visit, Is<JobPlan> T>
void fields(Visit& visit, T& of) {
  visit("id", of.id);
  visit("shapes", of.shapes);
}

template <typename Visit, Is<Place> T>
void fields(Visit& visit, T& of) {
  visit("provider", of.provider);
  visit("former", of.former);
  visit("origin", of.origin);
}

template <typename Visit, Is<Cluster> T>
void fields(Visit& visit, T& of) {
  visit("id", of.id);
  visit("shape", of.shape);
  visit("epoch", of.epoch);
  visit("is_running", of.is_running);
  visit("places", of.places);
  visit("pending", of.pending);
  visit("results", of.results);
}

template <typename Visit, Is<Piece> T>
void fields(Visit& visit, T& of) {
  visit("first_op", of.first_op);
  visit("last_op", of.last_op);
  visit("artifact", of.artifact);
}

template <typename Visit, Is<RestorePoint> T>
void fields(Visit& visit, T& of) {
  visit("cluster", of.cluster);
  visit("epoch", of.epoch);
  visit("version", of.version);
  visit("plan", of.plan);
  visit("pieces", of.pieces);
}

template <typename Visit, Is<Note> T>
void fields(Visit& visit, T& of) {
  visit("at", of.at);
  visit("text", of.text);
}

template <typename Visit, Is<CurvePoint> T>
void fields(Visit& visit, T& of) {
  visit("version", of.version);
  visit("loss", of.loss);
  visit("accuracy", of.accuracy);
}

template <typename Visit, Is<Job> T>
void fields(Visit& visit, T& of) {
  visit("id", of.id);
  visit("requester", of.requester);
  visit("name", of.name);
  visit("key", of.key);
  visit("program", of.program);
  visit("options", of.options);
  visit("submitted_at", of.submitted_at);
  visit("ended_at", of.ended_at);
  visit("phase", of.phase);
  visit("reason", of.reason);
  visit("epoch", of.epoch);
  visit("plan", of.plan);
  visit("last_cluster", of.last_cluster);
  visit("clusters", of.clusters);
  visit("restore", of.restore);
  visit("results", of.results);
  visit("failures", of.failures);
  visit("notes", of.notes);
  visit("curve", of.curve);
}

template <typename Visit, Is<Durable> T>
void fields(Visit& visit, T& of) {
  visit("boot", of.boot);
  visit("epoch", of.epoch);
  visit("last_job", of.last_job);
  visit("members", of.members);
  visit("tokens", of.tokens);
  visit("jobs", of.jobs);
}

// Changes, in the order of the variant.

inline constexpr std::array<std::string_view, std::variant_size_v<Change>> kChangeNames = {
    "server_booted",
    "token_made",
    "token_dropped",
    "member_enrolled",
    "member_paused",
    "member_removed",
    "job_submitted",
    "job_moved",
    "plan_asked",
    "plan_adopted",
    "lineup_set",
    "place_vacated",
    "cluster_dissolved",
    "cluster_started",
    "checkpoint_kept",
    "restore_moved",
    "stage_failure_counted",
    "result_kept",
    "job_ended",
    "job_forgotten",
    "noted",
    "curve_kept"};

template <typename Visit, Is<ServerBooted> T>
void fields(Visit& visit, T& of) {
  visit("boot", of.boot);
}

template <typename Visit, Is<TokenMade> T>
void fields(Visit& visit, T& of) {
  visit("token", of.token);
}

template <typename Visit, Is<TokenDropped> T>
void fields(Visit& visit, T& of) {
  visit("hash", of.hash);
}

template <typename Visit, Is<MemberEnrolled> T>
void fields(Visit& visit, T& of) {
  visit("member", of.member);
  visit("token", of.token);
}

template <typename Visit, Is<MemberPaused> T>
void fields(Visit& visit, T& of) {
  visit("member", of.member);
  visit("is_paused", of.is_paused);
}

template <typename Visit, Is<MemberRemoved> T>
void fields(Visit& visit, T& of) {
  visit("member", of.member);
}

template <typename Visit, Is<JobSubmitted> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("requester", of.requester);
  visit("name", of.name);
  visit("program", of.program);
  visit("options", of.options);
  visit("at", of.at);
  visit("key", of.key);
}

template <typename Visit, Is<JobMoved> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("phase", of.phase);
  visit("reason", of.reason);
}

template <typename Visit, Is<PlanAsked> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("epoch", of.epoch);
}

template <typename Visit, Is<PlanAdopted> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("plan", of.plan);
}

template <typename Visit, Is<LineupSet> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("cluster", of.cluster);
  visit("shape", of.shape);
  visit("epoch", of.epoch);
  visit("providers", of.providers);
  visit("origins", of.origins);
}

template <typename Visit, Is<PlaceVacated> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("cluster", of.cluster);
  visit("stage", of.stage);
}

template <typename Visit, typename T>
  requires Is<T, ClusterDissolved> || Is<T, ClusterStarted>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("cluster", of.cluster);
}

template <typename Visit, Is<CheckpointKept> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("cluster", of.cluster);
  visit("stage", of.stage);
  visit("version", of.version);
  visit("artifact", of.artifact);
}

template <typename Visit, Is<RestoreMoved> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("cluster", of.cluster);
  visit("version", of.version);
}

template <typename Visit, Is<ResultKept> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("cluster", of.cluster);
  visit("stage", of.stage);
  visit("artifact", of.artifact);
}

template <typename Visit, Is<JobEnded> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("phase", of.phase);
  visit("reason", of.reason);
  visit("at", of.at);
}

template <typename Visit, typename T>
  requires Is<T, StageFailureCounted> || Is<T, JobForgotten>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
}

template <typename Visit, Is<Noted> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("note", of.note);
}

template <typename Visit, Is<CurveKept> T>
void fields(Visit& visit, T& of) {
  visit("job", of.job);
  visit("curve", of.curve);
}

}  // namespace ravnest::coordinator
