#include "ravnest/coordinator/change.h"

#include <algorithm>
#include <iterator>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/limits.h"
#include "ravnest/coordinator/references.h"

namespace ravnest::coordinator {

namespace {

// One change. Its methods check first, then act.
class Applying {
 public:
  explicit Applying(Durable& durable) : durable_(durable) {}

  std::vector<Hash> released;

  void operator()(const ServerBooted& change) {
    require(change.boot > durable_.boot, "a later boot");
    durable_.boot = change.boot;
  }

  void operator()(const TokenMade& change) {
    require(is_hash(change.token.hash) && change.token.uses > 0, "a token with uses");
    durable_.tokens.insert_or_assign(change.token.hash, change.token);
  }

  void operator()(const TokenDropped& change) {
    require(durable_.tokens.erase(change.hash) == 1, "a token that exists");
  }

  void operator()(const MemberEnrolled& change) {
    if (!change.token.empty()) {
      const auto token = durable_.tokens.find(change.token);
      require(token != durable_.tokens.end(), "a token that exists");
      if (--token->second.uses == 0) {
        durable_.tokens.erase(token);
      }
    }
    require(!change.member.id.empty() &&
                durable_.members.emplace(change.member.id, change.member).second,
            "a new member");
  }

  void operator()(const MemberPaused& change) {
    const auto member = durable_.members.find(change.member);
    require(member != durable_.members.end(), "a member");
    member->second.is_paused = change.is_paused;
  }

  void operator()(const MemberRemoved& change) {
    require(!durable_.seats.contains(change.member) && durable_.members.erase(change.member) == 1,
            "a member without a stage");
  }

  void operator()(const JobSubmitted& change) {
    require(change.job == durable_.last_job + 1 && is_hash(change.program), "the next job");
    durable_.last_job = change.job;
    durable_.jobs[change.job] = {.id = change.job,
                                 .requester = change.requester,
                                 .name = change.name,
                                 .key = change.key,
                                 .program = change.program,
                                 .options = change.options,
                                 .submitted_at = change.at};
    add_reference(durable_, change.program);
  }

  void operator()(const JobMoved& change) {
    Job& job = open_job(change.job);
    require(!is_over(change.phase) && (!is_active(change.phase) || !job.clusters.empty()),
            "a phase that is not over");
    require(!is_active(change.phase) || is_whole(job), "a provider for every place");
    job.phase = change.phase;
    job.reason = change.reason;
    if (!is_active(change.phase)) {
      vacate_all(job);
    }
  }

  void operator()(const PlanAsked& change) {
    Job& job = open_job(change.job);
    take_epoch(change.epoch);
    job.epoch = change.epoch;
    job.phase = Phase::kPlanning;
    vacate_all(job);
  }

  void operator()(const PlanAdopted& change) {
    Job& job = open_job(change.job);
    require(job.phase == Phase::kPlanning, "a job that is being planned");
    check_plan(change.plan);
    add_references(durable_, change.plan);
    clear_clusters(job);
    if (job.plan) {
      drop_references(durable_, *job.plan, released);
    }
    job.plan = change.plan;
  }

  void operator()(const LineupSet& change) {
    Job& job = open_job(change.job);
    require(job.plan && change.shape >= 0 &&
                static_cast<std::size_t>(change.shape) < job.plan->shapes.size(),
            "a shape of the plan");
    const std::size_t stages =
        job.plan->shapes[static_cast<std::size_t>(change.shape)].stages.size();
    require(change.providers.size() == stages && change.origins.size() == stages,
            "a provider for every stage");
    take_epoch(change.epoch);
    Cluster& cluster = cluster_for(job, change);
    forget_kept(cluster);
    for (Place& place : cluster.places) {
      vacate(place);
    }
    for (std::size_t stage = 0; stage < stages; ++stage) {
      seat(change, stage, cluster.places[stage]);
    }
    cluster.epoch = change.epoch;
    cluster.is_running = false;
    job.epoch = change.epoch;
  }

  void operator()(const PlaceVacated& change) {
    Cluster& cluster = this->cluster(open_job(change.job), change.cluster);
    vacate(place(cluster, change.stage));
    cluster.is_running = false;
  }

  void operator()(const ClusterDissolved& change) {
    Job& job = open_job(change.job);
    Cluster& gone = cluster(job, change.cluster);
    forget_kept(gone);
    for (Place& place : gone.places) {
      vacate(place);
    }
    std::erase_if(job.clusters, [&](const Cluster& each) { return each.id == change.cluster; });
  }

  void operator()(const ClusterStarted& change) {
    cluster(open_job(change.job), change.cluster).is_running = true;
  }

  void operator()(const CheckpointKept& change) {
    Cluster& cluster = this->cluster(open_job(change.job), change.cluster);
    place(cluster, change.stage);
    require(is_hash(change.artifact) && change.version >= 0, "a checkpoint");
    add_reference(durable_, change.artifact);
    Hash& kept = cluster.pending[change.version][change.stage];
    drop_reference(durable_, kept, released);
    kept = change.artifact;
    while (cluster.pending.size() > kMostPending) {
      drop_pending(cluster, cluster.pending.begin()->first);
    }
  }

  void operator()(const RestoreMoved& change) {
    Job& job = open_job(change.job);
    Cluster& cluster = this->cluster(job, change.cluster);
    const auto found = cluster.pending.find(change.version);
    require(found != cluster.pending.end() && found->second.size() == cluster.places.size(),
            "a checkpoint that every stage has");
    const std::vector<Piece> before = job.restore ? job.restore->pieces : std::vector<Piece>{};
    job.restore = {.cluster = cluster.id,
                   .epoch = cluster.epoch,
                   .version = change.version,
                   .plan = job.plan->id,
                   .pieces = pieces(job, cluster, found->second)};
    for (const Piece& piece : job.restore->pieces) {
      add_reference(durable_, piece.artifact);
    }
    drop_references(durable_, before, released);
    for (Cluster& each : job.clusters) {
      while (!each.pending.empty() && each.pending.begin()->first <= change.version) {
        drop_pending(each, each.pending.begin()->first);
      }
    }
    job.failures = 0;
  }

  void operator()(const StageFailureCounted& change) { ++open_job(change.job).failures; }

  void operator()(const ResultKept& change) {
    Cluster& cluster = this->cluster(open_job(change.job), change.cluster);
    place(cluster, change.stage);
    require(is_hash(change.artifact), "an artifact");
    add_reference(durable_, change.artifact);
    Hash& kept = cluster.results[change.stage];
    drop_reference(durable_, kept, released);
    kept = change.artifact;
  }

  void operator()(const JobEnded& change) {
    Job& job = open_job(change.job);
    require(is_over(change.phase), "a phase that is over");
    if (change.phase == Phase::kDone) {
      keep_results(job);
    } else {
      keep_restore_point(job);
    }
    clear_clusters(job);
    drop_reference(durable_, job.program, released);
    job.program.clear();
    job.phase = change.phase;
    job.reason = change.reason;
    job.ended_at = change.at;
  }

  void operator()(const JobForgotten& change) {
    const auto found = durable_.jobs.find(change.job);
    require(found != durable_.jobs.end() && is_over(found->second.phase), "a job that is over");
    drop_references(durable_, found->second, released);
    durable_.jobs.erase(found);
  }

  void operator()(const CurveKept& change) {
    require(change.curve.size() <= kMostKeptPoints, "a curve that is thinned");
    open_job(change.job).curve = change.curve;
  }

  void operator()(const Noted& change) {
    Job* job = find_job(durable_, change.job);
    require(job != nullptr, "a job");
    job->notes.push_back(change.note);
    if (job->notes.size() > kMostNotes) {
      job->notes.erase(job->notes.begin());
    }
  }

 private:
  static void require(bool condition, const char* expected) {
    if (!condition) {
      throw_invalid("[coordinator] expected ", expected, " in the log, got a change that does not ",
                    "fit the state before it.");
    }
  }

  Job& open_job(JobId id) {
    Job* job = find_job(durable_, id);
    require(job != nullptr && !is_over(job->phase), "a job that is not over");
    return *job;
  }

  static Cluster& cluster(Job& job, ClusterId id) {
    Cluster* cluster = find_cluster(job, id);
    require(cluster != nullptr, "a cluster of the job");
    return *cluster;
  }

  static Place& place(Cluster& cluster, std::int64_t stage) {
    require(stage >= 0 && static_cast<std::size_t>(stage) < cluster.places.size(),
            "a stage of the cluster");
    return cluster.places[static_cast<std::size_t>(stage)];
  }

  static bool is_whole(const Job& job) {
    return std::ranges::none_of(job.clusters, [](const Cluster& cluster) {
      return std::ranges::any_of(cluster.places,
                                 [](const Place& place) { return place.provider.empty(); });
    });
  }

  static void check_plan(const JobPlan& plan) {
    std::size_t stages = 0;
    for (const ClusterShape& shape : plan.shapes) {
      require(!shape.stages.empty(), "stages in every cluster");
      stages += shape.stages.size();
      for (const StageShape& stage : shape.stages) {
        require(is_hash(stage.sub_model), "a sub-model for every stage");
        require(std::ranges::all_of(stage.files, is_hash, &File::hash), "files by hash");
      }
    }
    require(stages > 0 && stages <= kMostStages, "a plan with stages");
  }

  void take_epoch(Epoch epoch) {
    require(epoch > durable_.epoch, "a later epoch");
    durable_.epoch = epoch;
  }

  Cluster& cluster_for(Job& job, const LineupSet& change) {
    if (change.cluster == job.last_cluster + 1) {
      job.last_cluster = change.cluster;
      job.clusters.push_back({.id = change.cluster,
                              .shape = change.shape,
                              .places = std::vector<Place>(change.providers.size())});
      return job.clusters.back();
    }
    Cluster& known = cluster(job, change.cluster);
    require(known.shape == change.shape, "a cluster of the same shape");
    return known;
  }

  void seat(const LineupSet& change, std::size_t stage, Place& place) {
    const MemberId& provider = change.providers[stage];
    const auto member = durable_.members.find(provider);
    require(member != durable_.members.end() && member->second.role == Role::kProvider,
            "a provider that is a member");
    require(
        durable_.seats
            .emplace(provider, Seat{change.job, change.cluster, static_cast<std::int64_t>(stage)})
            .second,
        "a provider without another stage");
    place = {.provider = provider, .former = provider, .origin = change.origins[stage]};
  }

  void vacate(Place& place) {
    if (!place.provider.empty()) {
      durable_.seats.erase(place.provider);
      place.provider.clear();
    }
  }

  void vacate_all(Job& job) {
    for (Cluster& cluster : job.clusters) {
      forget_kept(cluster);
      cluster.is_running = false;
      for (Place& place : cluster.places) {
        vacate(place);
      }
    }
  }

  void forget_kept(Cluster& cluster) {
    drop_references(durable_, cluster, released);
    cluster.pending.clear();
    cluster.results.clear();
  }

  void clear_clusters(Job& job) {
    vacate_all(job);
    job.clusters.clear();
  }

  void drop_pending(Cluster& cluster, std::int64_t version) {
    for (const auto& [stage, artifact] : cluster.pending.at(version)) {
      drop_reference(durable_, artifact, released);
    }
    cluster.pending.erase(version);
  }

  static std::vector<Piece> pieces(const Job& job, const Cluster& cluster,
                                   const std::map<std::int64_t, Hash>& artifacts) {
    const auto& stages = shape_of(job, cluster).stages;
    std::vector<Piece> result;
    for (const auto& [stage, artifact] : artifacts) {
      const StageShape& shape = stages[static_cast<std::size_t>(stage)];
      result.push_back(
          {.first_op = shape.first_op, .last_op = shape.last_op, .artifact = artifact});
    }
    return result;
  }

  void keep_results(Job& job) {
    JobPlan kept{.id = job.plan->id};
    for (const Cluster& cluster : job.clusters) {
      if (has_result(cluster) && (job.results.empty() || !job.options.wants_one_result)) {
        std::ranges::move(pieces(job, cluster, cluster.results), std::back_inserter(job.results));
        kept.shapes.push_back(shape_of(job, cluster));
      }
    }
    require(!job.results.empty(), "a cluster with all results");
    for (const Piece& piece : job.results) {
      add_reference(durable_, piece.artifact);
    }
    keep_files(job, std::move(kept));
    if (job.restore) {
      drop_references(durable_, job.restore->pieces, released);
      job.restore.reset();
    }
  }

  // Hours of training may still be of use, and the plan's files say what the weights are.
  void keep_restore_point(Job& job) {
    if (!job.plan) {
      return;
    }
    if (job.restore && job.restore->plan == job.plan->id) {
      keep_files(job, *job.plan);
    } else {
      drop_references(durable_, *job.plan, released);
      job.plan.reset();
    }
  }

  void keep_files(Job& job, JobPlan kept) {
    for (ClusterShape& shape : kept.shapes) {
      for (StageShape& stage : shape.stages) {
        stage.sub_model.clear();
      }
    }
    add_references(durable_, kept);
    drop_references(durable_, *job.plan, released);
    job.plan = std::move(kept);
  }

  Durable& durable_;
};

}  // namespace

std::vector<Hash> apply_change(Durable& durable, const Change& change) {
  Applying applying(durable);
  std::visit(applying, change);
  return std::move(applying.released);
}

}  // namespace ravnest::coordinator
