#include "ravnest/coordinator/assignment.h"

namespace ravnest::coordinator {

Peer find_peer(const State& state, const MemberId& id) {
  Peer peer{.provider = id};
  if (const auto member = state.durable.members.find(id); member != state.durable.members.end()) {
    peer.name = member->second.name;
  }
  if (const auto live = state.live.providers.find(id); live != state.live.providers.end()) {
    peer.address = live->second.address;
    peer.is_relayed = live->second.is_relayed;
  }
  return peer;
}

namespace {

// As `provider` has to reach them.
std::vector<ClusterLineup> lineups(const State& state, const Job& job, const MemberId& provider) {
  std::vector<ClusterLineup> result;
  for (const Cluster& cluster : job.clusters) {
    ClusterLineup& lineup = result.emplace_back();
    lineup.id = cluster.id;
    lineup.shape = cluster.shape;
    lineup.epoch = cluster.epoch;
    for (const Place& place : cluster.places) {
      Peer& peer = lineup.stages.emplace_back(find_peer(state, place.provider));
      peer.is_relayed |= state.live.relayed.contains({provider, place.provider});
    }
  }
  return result;
}

}  // namespace

std::optional<Assignment> make_assignment(const State& state, const MemberId& provider) {
  const auto found = state.durable.seats.find(provider);
  if (found == state.durable.seats.end()) {
    return std::nullopt;
  }
  const Seat& seat = found->second;
  const Job& job = *find_job(state.durable, seat.job);
  const Cluster& cluster = *find_cluster(job, seat.cluster);
  const auto stage = static_cast<std::size_t>(seat.stage);
  Assignment result{.seat = seat,
                    .epoch = cluster.epoch,
                    .job_epoch = job.epoch,
                    .shape = cluster.shape,
                    .is_running = cluster.is_running,
                    .origin = cluster.places[stage].origin,
                    .stage = shape_of(job, cluster).stages[stage],
                    .options = job.options,
                    .clusters = lineups(state, job, provider)};
  if (result.origin == Origin::kCheckpoint) {
    result.restore = job.restore;
  }
  if (const auto feed = state.live.feeds.find(seat.job);
      seat.stage == 0 && feed != state.live.feeds.end()) {
    result.feed = feed->second;
    result.feed->is_relayed |= state.live.relayed.contains({provider, feed->second.requester});
  }
  return result;
}

}  // namespace ravnest::coordinator
