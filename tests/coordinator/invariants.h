#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ravnest/coordinator/decide.h"
#include "ravnest/coordinator/json.h"

namespace ravnest::coordinator {

// What a test's stages uploaded, by hash: which weights these are.
struct Weights {
  JobId job = 0;
  ClusterId cluster = 0;
  Epoch epoch = 0;
  std::int64_t stage = 0;
  std::int64_t version = 0;
};
using WeightsByHash = std::map<Hash, Weights>;

// Holds after every decision, whatever happened. Keeps a second durable state that sees nothing but
// the log, as text.
class Invariants {
 public:
  void check(const Durable& before, const State& after, const Decision& decision,
             const WeightsByHash& weights) {
    check_log(before, after, decision);
    check_derived(after.durable);
    check_epochs(before, after.durable);
    check_ended(before, after.durable);
    for (const auto& [id, job] : after.durable.jobs) {
      check_places(after, job);
      check_restore(job, weights);
    }
    for (const Action& action : decision.actions) {
      std::visit([&](const auto& each) { check_action(after, each); }, action);
    }
  }

  const Durable& replayed() const { return replayed_; }

 private:
  void check_log(const Durable& before, const State& after, const Decision& decision) {
    ASSERT_FALSE(decision.reason.empty());
    if (!decision.is_accepted) {
      ASSERT_TRUE(decision.changes.empty());
      ASSERT_EQ(before, after.durable) << "what is refused changes nothing";
    }
    for (const Change& change : read_changes(to_json(decision.changes))) {
      apply_change(replayed_, change);
    }
    ASSERT_EQ(replayed_, after.durable) << "the log tells another story";
  }

  static void check_derived(const Durable& durable) {
    Durable again = durable;
    ASSERT_NO_THROW(derive(again));
    ASSERT_EQ(again, durable) << "references or seats are wrong";
  }

  static void check_epochs(const Durable& before, const Durable& after) {
    ASSERT_GE(after.epoch, before.epoch);
    for (const auto& [id, job] : after.jobs) {
      const Job* old = find_job(before, id);
      ASSERT_TRUE(old == nullptr || job.epoch >= old->epoch);
      for (const Cluster& cluster : job.clusters) {
        const Cluster* was = old == nullptr ? nullptr : find_cluster(*old, cluster.id);
        ASSERT_LE(cluster.epoch, job.epoch);
        if (was != nullptr) {
          ASSERT_GE(cluster.epoch, was->epoch);
          ASSERT_TRUE(cluster.epoch > was->epoch || !is_active(job.phase) ||
                      same_lineup(cluster, *was))
              << "a line-up changed without its epoch";
        }
      }
    }
  }

  static bool same_lineup(const Cluster& a, const Cluster& b) {
    return std::ranges::equal(a.places, b.places, {}, &Place::provider, &Place::provider) &&
           std::ranges::equal(a.places, b.places, {}, &Place::origin, &Place::origin);
  }

  static void check_ended(const Durable& before, const Durable& after) {
    for (const auto& [id, job] : before.jobs) {
      const Job* now = find_job(after, id);
      ASSERT_TRUE(now != nullptr || is_over(job.phase)) << "only what is over is forgotten";
      if (now != nullptr && is_over(job.phase)) {
        ASSERT_EQ(*now, job) << "a job that is over has changed";
      }
    }
  }

  static void check_places(const State& state, const Job& job) {
    ASSERT_LE(job.notes.size(), kMostNotes);
    const bool has_running =
        std::ranges::any_of(job.clusters, [](const Cluster& each) { return each.is_running; });
    for (const Cluster& cluster : job.clusters) {
      ASSERT_LE(cluster.pending.size(), kMostPending);
      for (const Place& place : cluster.places) {
        if (place.provider.empty()) {
          continue;
        }
        const auto found = state.live.providers.find(place.provider);
        ASSERT_NE(found, state.live.providers.end());
        const Provider& provider = found->second;
        ASSERT_NE(provider.presence, Presence::kAway) << place.provider << " is not there";
        ASSERT_EQ(provider.reserved, 0) << "both has a place and is reserved";
        const bool is_parting = provider.let_go_by != Milliseconds{0};
        ASSERT_TRUE(is_parting || !provider.is_leaving);
        ASSERT_TRUE(is_parting || !state.durable.members.at(place.provider).is_paused);
        const bool needs_ring = place.origin == Origin::kRing || place.origin == Origin::kKept;
        ASSERT_TRUE(cluster.is_running || !needs_ring || has_running) << "nobody has its weights";
        ASSERT_TRUE(cluster.is_running || place.origin != Origin::kCheckpoint || job.restore);
      }
    }
  }

  // One version of one line-up, from the first op to the last, and nothing twice.
  static void check_restore(const Job& job, const WeightsByHash& weights) {
    if (!job.restore) {
      return;
    }
    std::int64_t at = 0;
    for (std::size_t stage = 0; stage < job.restore->pieces.size(); ++stage) {
      const Piece& piece = job.restore->pieces[stage];
      ASSERT_TRUE(weights.contains(piece.artifact));
      const Weights& of = weights.at(piece.artifact);
      ASSERT_EQ(of.job, job.id);
      ASSERT_EQ(of.cluster, job.restore->cluster);
      ASSERT_EQ(of.epoch, job.restore->epoch);
      ASSERT_EQ(of.version, job.restore->version);
      ASSERT_EQ(of.stage, static_cast<std::int64_t>(stage));
      ASSERT_EQ(piece.first_op, at);
      at = piece.last_op;
    }
    ASSERT_EQ(at, 12) << "every model of the tests has 12 ops";
  }

  static void check_seat(const State& state, const MemberId& provider, std::int64_t session,
                         const Seat& seat, Epoch epoch) {
    ASSERT_TRUE(state.durable.seats.contains(provider));
    ASSERT_EQ(state.durable.seats.at(provider), seat);
    ASSERT_EQ(find_cluster(*find_job(state.durable, seat.job), seat.cluster)->epoch, epoch);
    ASSERT_EQ(state.live.providers.at(provider).session, session);
  }

  static void check_action(const State& state, const Assign& action) {
    check_seat(state, action.provider, action.session, action.seat, action.epoch);
  }
  static void check_action(const State& state, const Start& action) {
    check_seat(state, action.provider, action.session, action.seat, action.epoch);
  }
  static void check_action(const State& state, const KeepCheckpoint& action) {
    check_seat(state, action.provider, action.session, action.seat, action.epoch);
  }
  static void check_action(const State& state, const SendCheckpoint& action) {
    check_seat(state, action.provider, action.session, action.seat, action.epoch);
  }
  static void check_action(const State& state, const Release& action) {
    ASSERT_FALSE(state.durable.seats.contains(action.provider));
  }
  static void check_action(const State& state, const MakePlan& action) {
    const Job* job = find_job(state.durable, action.job);
    ASSERT_NE(job, nullptr);
    ASSERT_EQ(job->phase, Phase::kPlanning);
    ASSERT_EQ(job->epoch, action.epoch);
    for (const PoolEntry& entry : action.pool) {
      ASSERT_FALSE(state.durable.seats.contains(entry.provider));
    }
  }
  static void check_action(const State& state, const MeasureLinks& action) {
    ASSERT_LE(action.peers.size(), kMostNeighbours);
    for (const MemberId& peer : action.peers) {
      ASSERT_NE(peer, action.provider);
      ASSERT_FALSE(state.durable.seats.contains(peer));
      ASSERT_FALSE(state.live.providers.at(peer).probe.empty());
    }
  }
  static void check_action(const State& state, const DropArtifact& action) {
    ASSERT_FALSE(state.durable.references.contains(action.hash)) << "still referred to";
  }
  template <typename Other>
  static void check_action(const State& /*state*/, const Other& /*action*/) {}

  Durable replayed_;
};

}  // namespace ravnest::coordinator
