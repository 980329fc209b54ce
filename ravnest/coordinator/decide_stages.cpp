#include <algorithm>
#include <cmath>

#include "ravnest/coordinator/deciding.h"

namespace ravnest::coordinator {

std::pair<Job*, Cluster*> Deciding::check_stage(const FromStage& from) {
  with_session(from.provider, from.session).heard = now_.steady;
  const Seat* seat = find_seat(from.provider);
  if (seat == nullptr || *seat != Seat{from.job, from.cluster, from.stage}) {
    refuse_as(name_of(from.provider), " does not hold ", place_name(from.cluster, from.stage),
              " of job ", from.job, ".");
  }
  Job& job = durable_.jobs.at(from.job);
  Cluster& cluster = *find_cluster(job, from.cluster);
  if (cluster.epoch != from.epoch) {
    refuse_as("A word of ", name_of(from.provider), " is of epoch ", from.epoch,
              "; the cluster's is ", cluster.epoch, ".");
  }
  return {&job, &cluster};
}

std::string Deciding::on(const StageReady& event) {
  const auto [job, cluster] = check_stage(event.from);
  if (cluster->is_running) {
    return concat("Cluster ", cluster->id, " is running already.");
  }
  auto& ready = state_.live.ready[{job->id, cluster->id}];
  ready.insert(event.from.stage);
  if (ready.size() < cluster->places.size()) {
    return concat(ready.size(), " of ", cluster->places.size(), " stages of cluster ", cluster->id,
                  " are ready.");
  }
  start(*job, *cluster);
  return concat("All stages of cluster ", cluster->id, " are ready: it trains.");
}

void Deciding::start(Job& job, Cluster& cluster) {
  change(ClusterStarted{job.id, cluster.id});
  state_.live.ready.erase({job.id, cluster.id});
  const std::string sentence = concat("Cluster ", cluster.id, " trains.");
  note(job, sentence);
  for (std::size_t stage = 0; stage < cluster.places.size(); ++stage) {
    const MemberId& provider = cluster.places[stage].provider;
    if (live(provider).session != 0) {
      act(Start{provider,
                live(provider).session,
                {job.id, cluster.id, static_cast<std::int64_t>(stage)},
                cluster.epoch});
    }
  }
  update_phase(job, sentence);
  move_restore(job);
  settle();
}

std::string Deciding::on(const StageReport& event) {
  const Report& report = event.report;
  for (const double number :
       {report.loss, report.accuracy, report.samples_per_second, report.delay, report.send_mbps,
        report.receive_mbps, report.computing, report.waiting, report.sending}) {
    require(std::isfinite(number), "a report of finite numbers");
  }
  require(report.version >= 0 && report.version <= kLargestNumber && report.memory_bytes >= 0 &&
              report.memory_bytes <= kLargestNumber,
          "a report of numbers in their range");
  const auto [job, cluster] = check_stage(event.from);
  Report& kept = state_.live.reports[event.from.provider] = report;
  kept.averaging = sentence_of(report.averaging);
  if (event.from.stage + 1 == static_cast<std::int64_t>(cluster->places.size()) &&
      cluster->id == job->clusters.front().id) {
    auto& curve = state_.live.curves[job->id];
    // The same version again, or one that was lost with a provider: the newest word counts.
    std::erase_if(curve, [&](const CurvePoint& point) { return point.version >= report.version; });
    curve.push_back({report.version, report.loss, report.accuracy});
    if (curve.size() > kMostCurvePoints) {
      for (std::size_t i = 0; i < curve.size() / 2; ++i) {
        curve[i] = curve[2 * i + 1];
      }
      curve.resize(curve.size() / 2);
    }
  }
  return "Its report is kept.";
}

std::string Deciding::on(const StageKept& event) {
  require(event.versions.size() <= kMostKept &&
              std::ranges::all_of(
                  event.versions,
                  [](std::int64_t version) { return version >= 0 && version <= kLargestNumber; }),
          "a few checkpoints, of versions from 0 to 10^15");
  const auto [job, cluster] = check_stage(event.from);
  require(cluster->is_running, "checkpoints of a cluster that trains");
  const std::set<std::int64_t> versions(event.versions.begin(), event.versions.end());
  state_.live.kept[job->id][cluster->id].versions[event.from.stage] = versions;
  if (!versions.empty() && job->restore && *versions.rbegin() <= job->restore->version) {
    hand_over(*job, cluster->id);  // it has learned nothing that the restore point has not
    settle();
    return concat("The restore point is as new as ",
                  place_name(event.from.cluster, event.from.stage), ".");
  }
  ask_checkpoint(*job, *cluster, event.from.stage);
  return concat(versions.size(), " checkpoints are kept by ",
                place_name(event.from.cluster, event.from.stage), ".");
}

// The newest that every stage has, there or here; until that has come, or a stage has it no more,
// no other. So what is sent is of use, however fast each link is. One that just spoke may not have
// heard what it was asked.
void Deciding::ask_checkpoint(const Job& job, const Cluster& cluster, std::int64_t speaker) {
  Kept& kept = state_.live.kept[job.id][cluster.id];
  const auto stages = static_cast<std::int64_t>(cluster.places.size());
  const auto is_here = [&](std::int64_t version, std::int64_t stage) {
    const auto found = cluster.pending.find(version);
    return found != cluster.pending.end() && found->second.contains(stage);
  };
  const auto is_of_all = [&](std::int64_t version) {
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      if (!is_here(version, stage) && !kept.versions[stage].contains(version)) {
        return false;
      }
    }
    return version > (job.restore ? job.restore->version : -1);
  };
  const bool is_under_way = is_of_all(kept.asked);
  if (!is_under_way) {
    std::set<std::int64_t> versions = kept.versions[speaker];
    for (const auto& [version, pieces] : cluster.pending) {
      versions.insert(version);
    }
    const auto newest = std::find_if(versions.rbegin(), versions.rend(), is_of_all);
    kept.asked = newest == versions.rend() ? -1 : *newest;
  }
  for (std::int64_t stage = 0; kept.asked >= 0 && stage < stages; ++stage) {
    const MemberId& provider = cluster.places[static_cast<std::size_t>(stage)].provider;
    if ((!is_under_way || stage == speaker) && !is_here(kept.asked, stage) &&
        live(provider).session != 0) {
      act(SendCheckpoint{provider,
                         live(provider).session,
                         {job.id, cluster.id, stage},
                         cluster.epoch,
                         kept.asked});
    }
  }
}

std::string Deciding::on(const StageCheckpoint& event) {
  require(is_hash(event.artifact), "the checkpoint's SHA-256");
  require(event.version >= 0 && event.version <= kLargestNumber, "a version from 0 to 10^15");
  const auto [job, cluster] = check_stage(event.from);
  require(cluster->is_running, "a checkpoint of a cluster that trains");
  require(!job->restore || event.version > job->restore->version,
          "a checkpoint that is newer than the restore point");
  require(event.version == state_.live.kept[job->id][cluster->id].asked,
          "the checkpoint that was asked for");
  change(CheckpointKept{job->id, cluster->id, event.from.stage, event.version, event.artifact});
  const std::int64_t before = job->restore ? job->restore->version : -1;
  move_restore(*job);
  if (job->restore && job->restore->version != before) {
    settle();
    const Cluster* left = find_cluster(*job, event.from.cluster);
    if (left != nullptr && left->is_running) {
      ask_checkpoint(*job, *left, event.from.stage);  // another may be there by now
    }
    return concat("Version ", job->restore->version, " is the restore point: every stage has it.");
  }
  return concat("Version ", event.version, " is kept of ",
                place_name(event.from.cluster, event.from.stage), "; others are still to come.");
}

// All stages of a cluster must restore the same version: while one is at it, the point stays.
bool Deciding::may_move_restore(const Job& job) const {
  return std::ranges::none_of(job.clusters, [](const Cluster& cluster) {
    return !cluster.is_running && std::ranges::any_of(cluster.places, [](const Place& place) {
      return place.origin == Origin::kCheckpoint;
    });
  });
}

// To the newest version that every stage of a cluster has.
void Deciding::move_restore(Job& job) {
  if (!may_move_restore(job)) {
    return;
  }
  const Cluster* newest = nullptr;
  std::int64_t version = job.restore ? job.restore->version : -1;
  for (const Cluster& cluster : job.clusters) {
    for (const auto& [pending, stages] : cluster.pending) {
      if (pending > version && stages.size() == cluster.places.size()) {
        newest = &cluster;
        version = pending;
      }
    }
  }
  if (newest == nullptr) {
    return;
  }
  const ClusterId cluster = newest->id;
  change(RestoreMoved{job.id, cluster, version});
  keep_curve(job);
  note(job, concat("Version ", version, " of cluster ", cluster, " is the restore point."));
  hand_over(job, cluster);
  grow(job);
}

// So that a server that is started again shows it, too.
void Deciding::keep_curve(const Job& job) {
  const auto found = state_.live.curves.find(job.id);
  if (found == state_.live.curves.end() || found->second.empty()) {
    return;
  }
  const std::vector<CurvePoint>& all = found->second;
  const std::size_t step = (all.size() + kMostKeptPoints - 1) / kMostKeptPoints;
  CurveKept kept{job.id, {}};
  for (std::size_t i = (all.size() - 1) % step; i < all.size(); i += step) {
    kept.curve.push_back(all[i]);
  }
  change(std::move(kept));
}

// Those who wait to go may go now.
void Deciding::hand_over(Job& job, ClusterId id) {
  std::vector<Seat> parting;
  const Cluster& cluster = *find_cluster(job, id);
  for (std::size_t stage = 0; stage < cluster.places.size(); ++stage) {
    if (live(cluster.places[stage].provider).let_go_by != Milliseconds{0}) {
      parting.push_back({job.id, id, static_cast<std::int64_t>(stage)});
    }
  }
  if (!parting.empty()) {
    is_handed_over_.insert({job.id, id});
  }
  for (const Seat& seat : parting) {
    const auto& place = cluster.places[static_cast<std::size_t>(seat.stage)];
    note(job, concat(name_of(place.provider), " has handed over ",
                     place_name(seat.cluster, seat.stage), "."));
    vacate(seat);
  }
}

std::string Deciding::on(const StageResult& event) {
  require(is_hash(event.artifact), "the weights' SHA-256");
  const auto [job, cluster] = check_stage(event.from);
  require(cluster->is_running, "the result of a cluster that trains");
  change(ResultKept{job->id, cluster->id, event.from.stage, event.artifact});
  if (end_with_results(*job)) {
    settle();
    return job->reason;
  }
  update_phase(*job, "Training is over; final weights arrive.");
  return concat("The weights of ", place_name(event.from.cluster, event.from.stage), " are kept.");
}

// False where there is something to wait for. A cluster that does not train any more gives nothing.
bool Deciding::end_with_results(Job& job) {
  const auto whole = std::ranges::find_if(job.clusters, has_result);
  const bool is_awaited = std::ranges::any_of(job.clusters, [&](const Cluster& each) {
    return !job.options.wants_one_result && each.is_running && !has_result(each);
  });
  if (whole == job.clusters.end() || is_awaited) {
    return false;
  }
  end(job, Phase::kDone,
      concat("It is done: every stage of cluster ", whole->id, " gave its weights."));
  return true;
}

// Whether somebody could answer there: a stage that is ready, or the requester.
bool Deciding::is_listening(const Job& job, const MemberId& id) const {
  const auto feed = state_.live.feeds.find(job.id);
  if (feed != state_.live.feeds.end() && feed->second.requester == id) {
    return true;
  }
  const Seat* seat = find_seat(id);
  if (seat == nullptr || seat->job != job.id ||
      state_.live.providers.at(id).presence != Presence::kPresent) {
    return false;
  }
  const auto ready = state_.live.ready.find({job.id, seat->cluster});
  return find_cluster(job, seat->cluster)->is_running ||
         (ready != state_.live.ready.end() && ready->second.contains(seat->stage));
}

std::string Deciding::on(const StageUnreached& event) {
  const Job& job = *check_stage(event.from).first;
  const MemberId& from = event.from.provider;
  const std::string sentence = concat(name_of(from), " does not reach ", name_of(event.peer), " (",
                                      event.reason.substr(0, kLongestText / 2), ")");
  auto& unreached = state_.live.unreached;
  const std::pair link(from, event.peer);
  if (!is_listening(job, event.peer)) {
    unreached.erase(link);
    return concat(sentence, ", which is not ready yet, or gone.");
  }
  if (state_.live.relayed.contains(link)) {
    return concat(sentence, "; the relay carries that link already.");
  }
  Span& span = unreached.try_emplace(link, Span{now_.steady, now_.steady}).first->second;
  if (now_.steady - span.last >= kLostAfter) {
    span.first = now_.steady;  // in between it was reached
  }
  span.last = now_.steady;
  if (span.last - span.first < kRelayAfter) {
    return concat(sentence, ".");
  }
  require(state_.live.relayed.size() < kMostMembers, "fewer links through the relay");
  unreached.erase(link);
  state_.live.relayed.insert(link);
  note(durable_.jobs.at(job.id),
       concat(sentence, ": that link goes through the server's relay now."));
  assign({event.from.job, event.from.cluster, event.from.stage});
  return concat(sentence, ".");
}

// Whoever says so, or the neighbour that it names: only one of the two is wrong, and which cannot
// be told from here. Who names others again and again has its share.
std::set<MemberId> Deciding::suspects(const StageFailed& event, const MemberId& named) {
  const MemberId& speaker = event.from.provider;
  if (named.empty()) {
    return {speaker};
  }
  if (event.is_final || !state_.live.accusers[event.from.job].insert(speaker).second) {
    return {speaker, named};
  }
  return {named};
}

// The job's own fault: nobody is suspected of all the final failures there were. Leaves in
// `suspected` those who are.
bool Deciding::is_proven(const Job& job, std::set<MemberId>& suspected) {
  const auto [found, is_first] = state_.live.suspects.try_emplace(job.id, suspected);
  if (!is_first) {
    std::erase_if(found->second, [&](const MemberId& id) { return !suspected.contains(id); });
  }
  suspected = found->second;
  return suspected.empty();
}

// Somebody else could try: in another cluster, or in the place of one of these.
bool Deciding::has_others(const Job& job, const Cluster& cluster,
                          const std::set<MemberId>& these) const {
  const std::set<MemberId> free = free_providers();
  return job.clusters.size() > 1 || std::ranges::any_of(these, [&](const MemberId& id) {
           const auto stage = static_cast<std::size_t>(find_seat(id)->stage);
           return find_best(free, shape_of(job, cluster).stages[stage]) != nullptr;
         });
}

std::string Deciding::on(const StageFailed& event) {
  const auto [job, cluster] = check_stage(event.from);
  const Seat* other = find_seat(event.suspect);
  const bool is_neighbour = other != nullptr && other->job == job->id &&
                            other->cluster == cluster->id && event.suspect != event.from.provider;
  const MemberId named = is_neighbour ? event.suspect : MemberId();
  const std::string reason = concat(
      name_of(event.from.provider), " failed at ", place_name(event.from.cluster, event.from.stage),
      ": ", event.reason.substr(0, kLongestText / 2),
      named.empty() ? "" : concat(" (", name_of(named), " may be to blame)"));
  std::set<MemberId> struck = suspects(event, named);
  const bool is_over =
      event.is_final && (is_proven(*job, struck) || !has_others(*job, *cluster, struck));
  if (is_over || job->failures + 1 >= kMostFailures) {
    end(*job, Phase::kFailed, reason);
    settle();
    return reason;
  }
  note(*job, reason);
  change(StageFailureCounted{job->id});
  if (event.is_memory) {
    live(event.from.provider).measured.ram_gb *= 0.8;  // its share shrinks
  }
  for (const MemberId& id : struck) {
    strike(id);
  }
  struck.insert(event.from.provider);  // its process is gone in any case
  for (const MemberId& id : struck) {
    vacate(*find_seat(id));
  }
  settle();
  return reason;
}

}  // namespace ravnest::coordinator
