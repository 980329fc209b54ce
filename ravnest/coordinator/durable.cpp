#include "ravnest/coordinator/durable.h"

#include <algorithm>
#include <set>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/limits.h"
#include "ravnest/coordinator/references.h"

namespace ravnest::coordinator {

namespace {

bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

void take_seat(Durable& durable, const MemberId& provider, const Seat& seat) {
  if (!durable.members.contains(provider) || !durable.seats.emplace(provider, seat).second) {
    throw_invalid("[coordinator] expected a member without a stage in job ", seat.job, ", got '",
                  provider, "'.");
  }
}

// Stages that kept something are stages of the cluster.
bool has_its_own(const Cluster& cluster) {
  const auto fits = [&](const std::map<std::int64_t, Hash>& stages) {
    return stages.empty() ||
           (stages.begin()->first >= 0 &&
            static_cast<std::size_t>(stages.rbegin()->first) < cluster.places.size());
  };
  return fits(cluster.results) && std::ranges::all_of(cluster.pending, [&](const auto& entry) {
           return fits(entry.second);
         });
}

void check_clusters(const Job& job) {
  std::set<ClusterId> ids;
  for (const Cluster& cluster : job.clusters) {
    const bool fits = job.plan && cluster.shape >= 0 &&
                      static_cast<std::size_t>(cluster.shape) < job.plan->shapes.size() &&
                      shape_of(job, cluster).stages.size() == cluster.places.size();
    if (!fits || !has_its_own(cluster) || cluster.id < 1 || cluster.id > job.last_cluster ||
        !ids.insert(cluster.id).second) {
      throw_invalid("[coordinator] expected clusters that fit the plan of job ", job.id,
                    ", got cluster ", cluster.id, ".");
    }
    for (const Place& place : cluster.places) {
      if (place.provider.empty() == is_active(job.phase)) {
        throw_invalid("[coordinator] expected places that fit the phase of job ", job.id,
                      ", got provider '", place.provider, "' while ", to_string(job.phase), ".");
      }
    }
  }
}

void check_job(const Durable& durable, JobId id, const Job& job) {
  if (job.id != id || id < 1 || id > durable.last_job) {
    throw_invalid("[coordinator] expected job ", id, ", got job ", job.id, ".");
  }
  if (job.epoch > durable.epoch || (is_active(job.phase) && job.clusters.empty())) {
    throw_invalid("[coordinator] expected job ", id,
                  " to be whole, got one without clusters or of ", "an epoch to come.");
  }
  check_clusters(job);
}

}  // namespace

void derive(Durable& durable) {
  durable.references.clear();
  durable.seats.clear();
  for (const auto& [id, job] : durable.jobs) {
    check_job(durable, id, job);
    add_references(durable, job);
    for (const Cluster& cluster : job.clusters) {
      for (std::size_t stage = 0; stage < cluster.places.size(); ++stage) {
        if (const MemberId& provider = cluster.places[stage].provider; !provider.empty()) {
          take_seat(durable, provider, {id, cluster.id, static_cast<std::int64_t>(stage)});
        }
      }
    }
  }
}

bool is_over(Phase phase) { return phase >= Phase::kDone; }

bool is_active(Phase phase) {
  return phase == Phase::kPreparing || phase == Phase::kRunning || phase == Phase::kEnding;
}

Job* find_job(Durable& durable, JobId id) {
  const auto found = durable.jobs.find(id);
  return found == durable.jobs.end() ? nullptr : &found->second;
}

const Job* find_job(const Durable& durable, JobId id) {
  const auto found = durable.jobs.find(id);
  return found == durable.jobs.end() ? nullptr : &found->second;
}

Cluster* find_cluster(Job& job, ClusterId id) {
  const auto found = std::ranges::find(job.clusters, id, &Cluster::id);
  return found == job.clusters.end() ? nullptr : &*found;
}

const Cluster* find_cluster(const Job& job, ClusterId id) {
  const auto found = std::ranges::find(job.clusters, id, &Cluster::id);
  return found == job.clusters.end() ? nullptr : &*found;
}

const ClusterShape& shape_of(const Job& job, const Cluster& cluster) {
  return job.plan->shapes[static_cast<std::size_t>(cluster.shape)];
}

bool has_result(const Cluster& cluster) { return cluster.results.size() == cluster.places.size(); }

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kQueued:
      return "queued";
    case Phase::kPlanning:
      return "planning";
    case Phase::kPreparing:
      return "preparing";
    case Phase::kRunning:
      return "running";
    case Phase::kEnding:
      return "ending";
    case Phase::kPaused:
      return "paused";
    case Phase::kDone:
      return "done";
    case Phase::kFailed:
      return "failed";
    case Phase::kCancelled:
      return "cancelled";
  }
  RAVNEST_CHECK(false);
}

std::string_view to_string(Role role) { return role == Role::kProvider ? "provider" : "requester"; }

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::kFresh:
      return "fresh";
    case Origin::kKept:
      return "kept";
    case Origin::kRing:
      return "ring";
    case Origin::kCheckpoint:
      return "checkpoint";
  }
  RAVNEST_CHECK(false);
}

bool is_hash(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && is_alnum(text.front()) &&
         std::ranges::all_of(
             text, [](char c) { return is_alnum(c) || c == '.' || c == '_' || c == '-'; });
}

}  // namespace ravnest::coordinator
