#include <algorithm>
#include <numeric>

#include "ravnest/coordinator/deciding.h"

namespace ravnest::coordinator {

// Active jobs first keep what they have; then those that wait begin, in the order of their ids.
void Deciding::settle() {
  for (auto& [id, job] : durable_.jobs) {
    if (is_active(job.phase)) {
      settle_job(job);
    }
  }
  for (auto& [id, job] : durable_.jobs) {
    if (job.phase == Phase::kQueued || job.phase == Phase::kPaused) {
      begin(job);
    }
  }
}

void Deciding::settle_job(Job& job) {
  if (end_with_results(job)) {
    return;
  }
  std::vector<ClusterId> broken;
  for (const Cluster& cluster : job.clusters) {
    if (std::ranges::any_of(cluster.places,
                            [](const Place& place) { return place.provider.empty(); })) {
      broken.push_back(cluster.id);
    }
  }
  while (!fill_all(job, broken)) {
    if (job.clusters.size() == 1) {
      wait(job, "Nobody can take the place of a provider that is gone.");
      return;
    }
    dissolve(job, broken.back());
    broken.pop_back();
  }
  mend_origins(job);
  update_phase(job, "Its clusters have changed.");
}

// Leaves those that cannot be filled.
bool Deciding::fill_all(Job& job, std::vector<ClusterId>& broken) {
  std::erase_if(broken, [&](ClusterId id) { return fill(job, *find_cluster(job, id)); });
  return broken.empty();
}

bool Deciding::fill(Job& job, Cluster& cluster) {
  Lineup staying;
  Lineup former;
  for (const Place& place : cluster.places) {
    staying.push_back(place.provider);
    former.push_back(place.former);
  }
  auto lineup = find_lineup(shape_of(job, cluster), staying, former);
  if (!lineup) {
    return false;
  }
  std::vector<Origin> from = origins(job, cluster);
  for (std::size_t stage = 0; stage < staying.size(); ++stage) {
    if (staying[stage].empty()) {
      note(job, concat(name_of((*lineup)[stage]), " takes ",
                       place_name(cluster.id, static_cast<std::int64_t>(stage)),
                       "; weights: ", to_string(from[stage]), "."));
    }
  }
  set_lineup(job, cluster.id, cluster.shape, std::move(*lineup), std::move(from));
  return true;
}

// Who could hold which stage: those wanted, who are free or have it now; those who were there
// before, then those with the fewest strikes and the fastest that have the RAM, for the largest
// stage first. Whoever fits the largest fits the others too, so that no choice spoils a later one;
// only a preference can, and then there is none.
std::optional<Deciding::Lineup> Deciding::find_lineup(const ClusterShape& shape,
                                                      const Lineup& wanted,
                                                      const Lineup& former) const {
  Lineup lineup(shape.stages.size());
  std::set<MemberId> free = free_providers();
  std::vector<std::size_t> open;
  for (std::size_t stage = 0; stage < lineup.size(); ++stage) {
    const MemberId& id = wanted[stage];
    if (!id.empty()) {
      lineup[stage] = id;
      free.erase(id);
    } else {
      open.push_back(stage);
    }
  }
  if (free.size() < open.size()) {
    return std::nullopt;
  }
  std::ranges::stable_sort(open, std::greater{},
                           [&](std::size_t stage) { return shape.stages[stage].memory_bytes; });
  // Who failed there is not asked again while there are others.
  const bool is_scarce = free.size() == open.size();
  const auto choose = [&](bool prefers_former) {
    std::set<MemberId> left = free;
    return std::ranges::all_of(open, [&](std::size_t stage) {
      const MemberId* best = nullptr;
      if (prefers_former && left.contains(former[stage]) &&
          fits(former[stage], shape.stages[stage]) &&
          (is_scarce || state_.live.providers.at(former[stage]).strikes == 0)) {
        best = &former[stage];
      } else {
        best = find_best(left, shape.stages[stage]);
      }
      if (best == nullptr) {
        return false;
      }
      lineup[stage] = *best;
      left.erase(lineup[stage]);
      return true;
    });
  };
  if ((!former.empty() && choose(true)) || choose(false)) {
    return lineup;
  }
  return std::nullopt;
}

const MemberId* Deciding::find_best(const std::set<MemberId>& among,
                                    const StageShape& stage) const {
  const MemberId* best = nullptr;
  const auto merit = [&](const MemberId& id) {
    const Provider& provider = state_.live.providers.at(id);
    return std::pair(-provider.strikes, provider.measured.gflops);
  };
  for (const MemberId& id : among) {
    if (fits(id, stage) && (best == nullptr || merit(id) > merit(*best))) {
      best = &id;
    }
  }
  return best;
}

bool Deciding::fits(const MemberId& id, const StageShape& stage) const {
  return state_.live.providers.at(id).measured.ram_gb * 1e9 >=
         static_cast<double>(stage.memory_bytes);
}

std::set<MemberId> Deciding::free_providers() const {
  std::set<MemberId> free;
  for (const auto& [id, provider] : state_.live.providers) {
    if (is_free(state_, id, now_)) {
      free.insert(free.end(), id);
    }
  }
  return free;
}

std::vector<Origin> Deciding::origins(const Job& job, const Cluster& cluster) const {
  const bool is_handed_over = is_handed_over_.contains({job.id, cluster.id});
  const bool has_ring =
      std::ranges::any_of(job.clusters, [](const Cluster& each) { return each.is_running; });
  if (is_handed_over || !has_ring) {
    return restart_origins(job, cluster.places.size());
  }
  std::vector<Origin> result;
  for (const Place& place : cluster.places) {
    const bool has_weights = was_running_.contains({job.id, cluster.id});
    result.push_back(place.provider.empty() ? Origin::kRing
                     : has_weights          ? Origin::kKept
                                            : place.origin);
  }
  return result;
}

std::vector<Origin> Deciding::restart_origins(const Job& job, std::size_t stages) const {
  return std::vector<Origin>(stages, job.restore ? Origin::kCheckpoint : Origin::kFresh);
}

void Deciding::set_lineup(Job& job, ClusterId cluster, std::int64_t shape, Lineup lineup,
                          std::vector<Origin> origins) {
  change(
      LineupSet{job.id, cluster, shape, durable_.epoch + 1, std::move(lineup), std::move(origins)});
}

void Deciding::vacate(Seat seat) {
  const Cluster& cluster = *find_cluster(durable_.jobs.at(seat.job), seat.cluster);
  if (cluster.is_running) {
    was_running_.insert({seat.job, seat.cluster});
  }
  change(PlaceVacated{seat.job, seat.cluster, seat.stage});
}

void Deciding::dissolve(Job& job, ClusterId cluster) {
  note(job, concat("Cluster ", cluster, " is dissolved: nobody can take the place of a provider ",
                   "that is gone. The other clusters go on."));
  change(ClusterDissolved{job.id, cluster});
  state_.live.ready.erase({job.id, cluster});
}

// A cluster that was to take weights from others starts over where none of them trains any more.
void Deciding::mend_origins(Job& job) {
  if (std::ranges::any_of(job.clusters, [](const Cluster& each) { return each.is_running; })) {
    return;
  }
  for (const Cluster& cluster : job.clusters) {
    const bool is_orphan = std::ranges::any_of(cluster.places, [](const Place& place) {
      return place.origin == Origin::kRing || place.origin == Origin::kKept;
    });
    if (!is_orphan) {
      continue;
    }
    Lineup lineup;
    for (const Place& place : cluster.places) {
      lineup.push_back(place.provider);
    }
    note(job, concat("Cluster ", cluster.id, " starts over: no other trains that could give it ",
                     "weights."));
    auto from = restart_origins(job, lineup.size());
    set_lineup(job, cluster.id, cluster.shape, std::move(lineup), std::move(from));
  }
}

void Deciding::update_phase(Job& job, const std::string& reason) {
  Phase phase = Phase::kPreparing;
  for (const Cluster& cluster : job.clusters) {
    phase = !cluster.results.empty() ? Phase::kEnding
            : cluster.is_running     ? std::max(phase, Phase::kRunning)
                                     : phase;
    if (phase == Phase::kEnding) {
      break;
    }
  }
  if (phase != job.phase) {
    told_.insert(job.id);
    change(JobMoved{job.id, phase, reason});
  }
}

void Deciding::wait(Job& job, const std::string& reason) {
  const Phase phase = job.plan ? Phase::kPaused : Phase::kQueued;
  const std::string sentence = sentence_of(reason);
  if (job.phase == phase && job.reason == sentence) {
    return;
  }
  if (job.phase != phase) {
    note(job, sentence);
  }
  told_.insert(job.id);
  change(JobMoved{job.id, phase, sentence});
  std::erase_if(state_.live.ready, [&](const auto& entry) { return entry.first.first == job.id; });
}

// A job that waits: as it was where it can be, else by a new plan.
void Deciding::begin(Job& job) {
  const std::set<MemberId> free = free_providers();
  // One that has begun goes on with whoever can hold it.
  const auto least = static_cast<std::size_t>(
      job.plan ? 1 : std::max<std::int64_t>(job.options.least_providers, 1));
  if (free.size() < least) {
    wait(job, concat("It waits for providers: ", least, " wanted, ", free.size(), " free."));
    return;
  }
  const auto tried = state_.live.tried.find(job.id);
  if (tried != state_.live.tried.end() && std::ranges::includes(tried->second, free)) {
    return;
  }
  const auto most = static_cast<std::size_t>(job.options.most_providers);
  if (!job.plan && state_.live.arrivals && (most == 0 || free.size() < most)) {
    wait(job, concat("Providers are still coming, ", free.size(),
                     " so far: they are planned with together."));
    return;
  }
  if (!job.clusters.empty() && fill(job, job.clusters.front())) {
    while (job.clusters.size() > 1) {
      dissolve(job, job.clusters.back().id);
    }
    note(job, "It goes on.");
    update_phase(job, "It goes on.");
    return;
  }
  ask_plan(job, free);
}

void Deciding::ask_plan(Job& job, const std::set<MemberId>& free) {
  std::vector<MemberId> pool(free.begin(), free.end());
  const auto most = static_cast<std::size_t>(job.options.most_providers);
  if (most != 0 && pool.size() > most) {
    std::ranges::stable_sort(pool, std::greater{},
                             [&](const MemberId& id) { return live(id).measured.ram_gb; });
    pool.resize(most);
    std::ranges::sort(pool);
  }
  change(PlanAsked{job.id, durable_.epoch + 1});
  note(job, concat("A plan is made over ", pool.size(),
                   pool.size() == 1 ? " free provider." : " free providers."));
  MakePlan ask{.job = job.id,
               .epoch = job.epoch,
               .program = job.program,
               .options = job.options,
               .pool = {},
               .goes_on = job.plan.has_value()};
  for (const MemberId& id : pool) {
    live(id).reserved = job.id;
    ask.pool.push_back({id, live(id).measured});
  }
  act(std::move(ask));
}

// Spare providers become further clusters, cut like one that is there: nobody has to stop.
void Deciding::grow(Job& job) {
  const bool is_settled =
      job.phase == Phase::kRunning &&
      std::ranges::all_of(job.clusters, [](const Cluster& each) { return each.is_running; });
  const bool is_awaited = std::ranges::any_of(durable_.jobs, [](const auto& entry) {
    return entry.second.phase == Phase::kQueued || entry.second.phase == Phase::kPaused;
  });
  if (!is_settled || is_awaited) {
    return;
  }
  std::vector<std::size_t> shapes(job.plan->shapes.size());
  std::iota(shapes.begin(), shapes.end(), std::size_t{0});
  std::ranges::stable_sort(
      shapes, {}, [&](std::size_t shape) { return job.plan->shapes[shape].stages.size(); });
  std::size_t seats = 0;
  for (const Cluster& cluster : job.clusters) {
    seats += cluster.places.size();
  }
  const auto has_room = [](std::size_t wanted, std::int64_t most) {
    return most == 0 || wanted <= static_cast<std::size_t>(most);
  };
  for (const std::size_t index : shapes) {
    const ClusterShape& shape = job.plan->shapes[index];
    const std::size_t stages = shape.stages.size();
    while (has_room(job.clusters.size() + 1, job.options.clusters) &&
           has_room(seats + stages, job.options.most_providers)) {
      auto lineup = find_lineup(shape, Lineup(stages), {});
      if (!lineup) {
        break;
      }
      seats += stages;
      const ClusterId id = job.last_cluster + 1;
      note(job, concat("Cluster ", id, " is formed of ", stages, " spare providers."));
      set_lineup(job, id, static_cast<std::int64_t>(index), std::move(*lineup),
                 std::vector<Origin>(stages, Origin::kRing));
    }
  }
}

}  // namespace ravnest::coordinator
