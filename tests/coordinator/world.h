#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/decide.h"
#include "ravnest/trust/digest.h"
#include "tests/coordinator/invariants.h"

namespace ravnest::coordinator {

inline Hash sha256_of(std::string_view text) { return trust::to_hex(trust::sha256(text)); }

// A server's state, and people who talk to it. After every word the invariants are checked.
class World {
 public:
  World() { tell(Boot{}); }

  Decision tell(const Event& event) {
    const Durable before = state.durable;
    Decision decision = decide(state, event, now);
    invariants.check(before, state, decision, weights);
    for (const Action& action : decision.actions) {
      if (const auto* ask = std::get_if<MakePlan>(&action)) {
        asked.push_back(*ask);
      }
      actions.push_back(action);
    }
    return decision;
  }
  // The same, and it must be accepted; or refused.
  Decision does(const Event& event) {
    Decision decision = tell(event);
    EXPECT_TRUE(decision.is_accepted) << decision.reason;
    return decision;
  }
  std::string refuses(const Event& event) {
    const Decision decision = tell(event);
    EXPECT_FALSE(decision.is_accepted) << decision.reason;
    return decision.reason;
  }

  void pass(Milliseconds time) {
    now.steady += time;
    now.wall += time.count() / 1000;
  }
  // Time goes by, and those who are named beat.
  void wait(Milliseconds time, const std::vector<MemberId>& beating) {
    for (Milliseconds gone{0}; gone < time; gone += Milliseconds{500}) {
      pass(Milliseconds{500});
      for (const MemberId& id : beating) {
        tell(Beat{id, session(id)});
      }
      tell(Tick{});
    }
  }

  void enrol(const MemberId& id, Role role = Role::kProvider) {
    const Hash token = sha256_of("token of " + id);
    does(MakeToken{{.hash = token, .role = role, .uses = 1, .expires_at = now.wall + 3600}});
    does(Enrol{token, id, id});
  }
  Join join_of(const MemberId& id, double ram_gb = 8.0) const {
    return {.provider = id,
            .address = id + ":9000",
            .measured = {.ram_gb = ram_gb, .gflops = 10.0, .mbps = 10'000.0}};
  }
  // Enrols where it must.
  std::int64_t join(const MemberId& id, double ram_gb = 8.0) {
    if (!state.durable.members.contains(id)) {
      enrol(id);
    }
    return does(join_of(id, ram_gb)).session;
  }
  void join_all(const std::vector<MemberId>& ids) {
    for (const MemberId& id : ids) {
      join(id);
    }
  }
  // Nobody else comes for a while: jobs are planned.
  void gather() {
    pass(kGatherTime);
    tell(Tick{});
  }
  std::int64_t session(const MemberId& id) const { return state.live.providers.at(id).session; }

  JobId submit(JobOptions options = {}) {
    if (!state.durable.members.contains("rita")) {
      enrol("rita", Role::kRequester);
    }
    if (state.live.arrivals) {
      gather();
    }
    return does(SubmitJob{"rita", "digits", program, std::move(options)}).job;
  }
  const Job& job(JobId id) const { return state.durable.jobs.at(id); }
  const Cluster& cluster(JobId id, std::size_t index = 0) const { return job(id).clusters[index]; }

  // A cluster of so many stages of 1 GB, over 12 ops.
  static ClusterShape shape(std::size_t stages, const std::string& salt = "") {
    ClusterShape shape;
    for (std::size_t k = 0; k < stages; ++k) {
      shape.stages.push_back({.first_op = static_cast<std::int64_t>(12 * k / stages),
                              .last_op = static_cast<std::int64_t>(12 * (k + 1) / stages),
                              .memory_bytes = 1'000'000'000,
                              .sub_model = sha256_of(concat("sub-model", stages, k, salt)),
                              .files = {{"node.json", sha256_of(concat("node", k, salt))}}});
    }
    return shape;
  }
  static PlanMade plan_for(const MakePlan& ask, const std::vector<std::vector<MemberId>>& lineup) {
    PlanMade made{.job = ask.job, .epoch = ask.epoch};
    made.plan.id = concat("plan-", ask.epoch);
    for (const auto& stages : lineup) {
      made.clusters.push_back({.shape = made.plan.shapes.size(), .providers = stages});
      made.plan.shapes.push_back(shape(stages.size(), concat(ask.job, "-", ask.epoch)));
    }
    return made;
  }
  // Answers the last MakePlan.
  Decision plan(const std::vector<std::vector<MemberId>>& lineup) {
    EXPECT_FALSE(asked.empty());
    return does(plan_for(asked.back(), lineup));
  }

  FromStage from(const MemberId& id) const {
    const Seat& seat = state.durable.seats.at(id);
    return {.provider = id,
            .session = session(id),
            .job = seat.job,
            .cluster = seat.cluster,
            .epoch = find_cluster(job(seat.job), seat.cluster)->epoch,
            .stage = seat.stage};
  }
  void ready(const std::vector<MemberId>& ids) {
    for (const MemberId& id : ids) {
      does(StageReady{from(id)});
    }
  }
  Hash weights_of(const FromStage& of, std::int64_t version) {
    const Hash hash =
        sha256_of(concat(of.job, "/", of.cluster, "/", of.epoch, "/", of.stage, "/", version));
    weights[hash] = {of.job, of.cluster, of.epoch, of.stage, version};
    return hash;
  }
  StageCheckpoint checkpoint_of(const MemberId& id, std::int64_t version) {
    const FromStage stage = from(id);
    return {stage, version, weights_of(stage, version)};
  }
  void keep(const std::vector<MemberId>& ids, const std::vector<std::int64_t>& versions) {
    for (const MemberId& id : ids) {
      does(StageKept{from(id), versions});
    }
  }
  // All stages of a cluster keep it, are asked for it, and send it.
  void checkpoint(const std::vector<MemberId>& ids, std::int64_t version) {
    keep(ids, {version});
    for (const MemberId& id : ids) {
      does(checkpoint_of(id, version));
    }
  }
  StageResult result_of(const MemberId& id) {
    const FromStage stage = from(id);
    return {stage, weights_of(stage, 1'000'000)};
  }
  // The job runs on these, one cluster for each list.
  JobId run(const std::vector<std::vector<MemberId>>& lineup, JobOptions options = {}) {
    for (const auto& ids : lineup) {
      for (const MemberId& id : ids) {
        if (!state.live.providers.contains(id)) {
          join(id);
        }
      }
    }
    const JobId id = submit(std::move(options));
    plan(lineup);
    for (const auto& ids : lineup) {
      ready(ids);
    }
    return id;
  }

  template <typename T>
  std::vector<T> done() const {
    std::vector<T> found;
    for (const Action& action : actions) {
      if (const auto* each = std::get_if<T>(&action)) {
        found.push_back(*each);
      }
    }
    return found;
  }
  bool has_note(JobId id, const std::string& part) const {
    return std::ranges::any_of(
        job(id).notes, [&](const Note& note) { return note.text.find(part) != std::string::npos; });
  }
  std::vector<MemberId> lineup(JobId id, std::size_t index = 0) const {
    std::vector<MemberId> ids;
    for (const Place& place : cluster(id, index).places) {
      ids.push_back(place.provider);
    }
    return ids;
  }
  // The process is ended, and started anew with what is in the log.
  void restart_server() {
    state = {.durable = invariants.replayed(), .live = {}};
    now.steady = Milliseconds{1000};
    actions.clear();
    does(Boot{});
  }

  State state;
  Now now{.steady = Milliseconds{1000}, .wall = 1'700'000'000};
  Invariants invariants;
  WeightsByHash weights;
  std::vector<MakePlan> asked;
  std::vector<Action> actions;
  Hash program = sha256_of("program");
};

}  // namespace ravnest::coordinator
