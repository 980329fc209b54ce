#include <algorithm>
#include <functional>
#include <set>

#include "ravnest/base/table.h"
#include "ravnest/coordinator/deciding.h"

namespace ravnest::coordinator {

void Deciding::check_options(const JobOptions& options) const {
  const auto is_count = [](std::int64_t number, std::int64_t most) {
    return number >= 0 && number <= most;
  };
  const auto most = static_cast<std::int64_t>(kMostStages);
  require(is_count(options.seed, kLargestNumber), "a seed from 0 to 10^15");
  require(is_count(options.clusters, most), "at most 4096 clusters");
  require(is_count(options.least_providers, most) && is_count(options.most_providers, most),
          "at most 4096 providers");
  require(options.most_providers == 0 || options.least_providers <= options.most_providers,
          "no more providers as the least than as the most");
  require(is_count(options.batch, kLargestNumber), "a batch from 0 to 10^15");
  require(is_name(options.optimizer), "an optimizer by its name");
  require(options.training.size() <= kLongestTraining &&
              printable(options.training) == options.training,
          "training options as one line of at most 64 KB");
}

std::string Deciding::on(const SubmitJob& event) {
  const auto member = durable_.members.find(event.requester);
  require(member != durable_.members.end() && member->second.role == Role::kRequester,
          "a member that is a requester");
  require(is_name(event.name), "a job's name of letters, digits, '.', '_' and '-'");
  require(is_hash(event.program), "the Program's SHA-256");
  require(event.key.empty() || is_name(event.key), "a key of letters and digits");
  check_options(event.options);
  if (const Job* known = find_submitted(event)) {
    decision_.job = known->id;
    return concat("Job ", known->id, " was submitted before.");
  }
  make_room_for_job(event.requester);
  const JobId id = durable_.last_job + 1;
  change(JobSubmitted{id, event.requester, event.name, event.program, event.options, now_.wall,
                      event.key});
  note(durable_.jobs.at(id), concat(member->second.name, " submitted it."));
  decision_.job = id;
  touched_.insert(id);
  settle();
  return concat("Job ", id, " is queued.");
}

// The one that this asks for once more.
const Job* Deciding::find_submitted(const SubmitJob& event) const {
  const auto found = std::ranges::find_if(durable_.jobs, [&](const auto& entry) {
    return entry.second.requester == event.requester && entry.second.key == event.key;
  });
  return event.key.empty() || found == durable_.jobs.end() ? nullptr : &found->second;
}

// The requester's own old jobs go first: by submitting many nobody drives out those of others.
void Deciding::make_room_for_job(const MemberId& requester) {
  const auto is_own = [&](const auto& entry) { return entry.second.requester == requester; };
  const auto is_ended = [](const auto& entry) { return is_over(entry.second.phase); };
  const auto open = std::ranges::count_if(
      durable_.jobs, [&](const auto& entry) { return is_own(entry) && !is_ended(entry); });
  if (static_cast<std::size_t>(open) >= kMostOpenJobs) {
    refuse_as("Expected at most ", kMostOpenJobs,
              " open jobs of a requester, got one more: cancel ", "some, or let some end.");
  }
  if (durable_.jobs.size() < kMostJobs) {
    return;
  }
  auto oldest = std::ranges::find_if(
      durable_.jobs, [&](const auto& entry) { return is_own(entry) && is_ended(entry); });
  if (oldest == durable_.jobs.end()) {
    oldest = std::ranges::find_if(durable_.jobs, is_ended);
  }
  require(oldest != durable_.jobs.end(), "fewer open jobs; cancel some");
  state_.live.curves.erase(oldest->first);
  change(JobForgotten{oldest->first});
}

Job& Deciding::job_of(JobId id, const MemberId& by) {
  Job* job = find_job(durable_, id);
  if (job == nullptr || (!by.empty() && job->requester != by)) {
    refuse_as("Expected a job ", by.empty() ? "that is known" : "of yours", ", got ", id, ".");
  }
  return *job;
}

std::string Deciding::on(const CancelJob& event) {
  Job& job = job_of(event.job, event.by);
  require(!is_over(job.phase), "a job that is not over");
  const std::string reason = concat(
      "It was cancelled by ", event.by.empty() ? "the server's owner" : name_of(event.by), ".");
  end(job, Phase::kCancelled, reason);
  settle();
  return reason;
}

std::string Deciding::on(const ForgetJob& event) {
  const Job& job = job_of(event.job, event.by);
  require(is_over(job.phase), "a job that is over");
  state_.live.curves.erase(event.job);
  change(JobForgotten{event.job});
  return concat("Job ", event.job, " is forgotten.");
}

std::string Deciding::on(const FeedOffered& event) {
  const Job& job = job_of(event.job, event.requester);
  require(!event.requester.empty() && !is_over(job.phase), "a job that is not over");
  require(event.feed.is_relayed || !event.feed.address.empty(), "an address, or a link by relay");
  require(event.feed.address.size() <= kLongestAddress &&
              printable(event.feed.address) == event.feed.address,
          "a plain address");
  Feed& feed = state_.live.feeds[event.job] = event.feed;
  feed.requester = event.requester;
  touched_.insert(event.job);
  return concat("The requester of job ", event.job, " is there.");
}

std::string Deciding::on(const FeedGone& event) {
  job_of(event.job, event.requester);
  state_.live.feeds.erase(event.job);
  touched_.insert(event.job);
  return concat("The requester of job ", event.job, " is away; it may come back.");
}

void Deciding::end(Job& job, Phase phase, const std::string& reason) {
  unreserve(job.id);
  if (phase == Phase::kDone) {
    for (const Cluster& cluster : job.clusters) {
      for (const Place& place : cluster.places) {
        live(place.provider).strikes = 0;
      }
    }
  }
  note(job, reason);
  keep_curve(job);
  change(JobEnded{job.id, phase, sentence_of(reason), now_.wall});
  state_.live.tried.erase(job.id);
  state_.live.feeds.erase(job.id);
  state_.live.suspects.erase(job.id);
  state_.live.accusers.erase(job.id);
  std::erase_if(state_.live.ready, [&](const auto& entry) { return entry.first.first == job.id; });
}

Job& Deciding::planned_job(JobId id, Epoch epoch) {
  Job* job = find_job(durable_, id);
  if (job == nullptr || job->phase != Phase::kPlanning || job->epoch != epoch) {
    refuse_as("A plan of epoch ", epoch, " for job ", id, " comes too late.");
  }
  return *job;
}

void Deciding::unreserve(JobId job) {
  for (auto& [id, provider] : state_.live.providers) {
    if (provider.reserved == job) {
      provider.reserved = 0;
    }
  }
}

std::string Deciding::on(const PlanFailed& event) {
  Job& job = planned_job(event.job, event.epoch);
  std::set<MemberId> pool;
  for (const auto& [id, provider] : state_.live.providers) {
    if (provider.reserved == event.job) {
      pool.insert(id);
    }
  }
  if (event.is_final) {
    end(job, Phase::kFailed, event.reason);
  } else {
    unreserve(event.job);
    state_.live.tried[event.job] = std::move(pool);
    wait(job, event.reason);
  }
  settle();
  return event.reason;
}

void Deciding::check_plan(const PlanMade& event) const {
  std::size_t stages = 0;
  std::set<MemberId> seen;
  require(!event.clusters.empty(), "a plan of a cluster or more");
  for (const PlannedCluster& cluster : event.clusters) {
    require(cluster.shape < event.plan.shapes.size() &&
                cluster.providers.size() == event.plan.shapes[cluster.shape].stages.size(),
            "a plan with a provider for every stage");
    stages += cluster.providers.size();
    for (const MemberId& provider : cluster.providers) {
      require(seen.insert(provider).second, "a plan that uses a provider once");
    }
  }
  for (const ClusterShape& shape : event.plan.shapes) {
    require(!shape.stages.empty(), "a plan of clusters with a stage or more");
    for (const StageShape& stage : shape.stages) {
      require(is_hash(stage.sub_model), "a plan with a sub-model for every stage");
      require(std::ranges::all_of(stage.files, is_hash, &File::hash), "a plan with files by hash");
    }
  }
  require(stages <= kMostStages, "a plan of at most 4096 stages");
}

std::string Deciding::on(const PlanMade& event) {
  Job& job = planned_job(event.job, event.epoch);
  check_plan(event);
  unreserve(event.job);
  state_.live.tried.erase(event.job);
  change(PlanAdopted{event.job, event.plan});
  adopt(job, event);
  std::string reason;
  if (job.clusters.empty()) {
    reason = "The providers of its plan went away meanwhile.";
    wait(job, reason);
  } else {
    std::size_t stages = 0;
    for (const Cluster& cluster : job.clusters) {
      stages += cluster.places.size();
    }
    reason = concat("It is planned on ", stages, stages == 1 ? " provider in " : " providers in ",
                    job.clusters.size(), job.clusters.size() == 1 ? " cluster." : " clusters.");
    note(job, reason);
    update_phase(job, reason);
  }
  settle();
  return reason;
}

// Clusters whose providers are all there come first; then the others, with whoever is left.
void Deciding::adopt(Job& job, const PlanMade& event) {
  const auto take = [&](std::size_t shape, const Lineup& lineup) {
    set_lineup(job, job.last_cluster + 1, static_cast<std::int64_t>(shape), lineup,
               restart_origins(job, lineup.size()));
  };
  const auto is_here = [&](const MemberId& id) { return is_free(state_, id, now_); };
  std::vector<const PlannedCluster*> later;
  for (const PlannedCluster& cluster : event.clusters) {
    if (std::ranges::all_of(cluster.providers, is_here)) {
      take(cluster.shape, cluster.providers);
    } else {
      later.push_back(&cluster);
    }
  }
  for (const PlannedCluster* cluster : later) {
    Lineup wanted = cluster->providers;
    std::ranges::replace_if(wanted, std::not_fn(is_here), MemberId());
    if (const auto lineup = find_lineup(event.plan.shapes[cluster->shape], wanted, {})) {
      take(cluster->shape, *lineup);
    }
  }
}

}  // namespace ravnest::coordinator
