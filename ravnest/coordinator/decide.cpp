#include "ravnest/coordinator/decide.h"

#include <algorithm>

#include "ravnest/base/table.h"
#include "ravnest/coordinator/deciding.h"

namespace ravnest::coordinator {

namespace {

// The job whose line-up a change may alter; 0: none.
struct AltersLineup {
  JobId operator()(const JobMoved& change) const {
    return is_active(change.phase) ? 0 : change.job;
  }
  JobId operator()(const PlanAsked& change) const { return change.job; }
  JobId operator()(const PlanAdopted& change) const { return change.job; }
  JobId operator()(const LineupSet& change) const { return change.job; }
  JobId operator()(const PlaceVacated& change) const { return change.job; }
  JobId operator()(const ClusterDissolved& change) const { return change.job; }
  JobId operator()(const JobEnded& change) const { return change.job; }
  template <typename Other>
  JobId operator()(const Other& /*change*/) const {
    return 0;
  }
};

}  // namespace

Decision decide(State& state, const Event& event, Now now) {
  Deciding deciding(state, now);
  try {
    return deciding.finish(std::visit([&](const auto& each) { return deciding.on(each); }, event));
  } catch (const Deciding::Refused& refused) {
    return deciding.refuse(refused.reason);
  }
}

bool is_free(const State& state, const MemberId& id, Now now) {
  const auto provider = state.live.providers.find(id);
  const auto member = state.durable.members.find(id);
  return provider != state.live.providers.end() && member != state.durable.members.end() &&
         provider->second.presence == Presence::kPresent && provider->second.reserved == 0 &&
         !provider->second.is_leaving && provider->second.let_go_by == Milliseconds{0} &&
         provider->second.banned_until <= now.steady && !member->second.is_paused &&
         !state.durable.seats.contains(id);
}

std::string sentence_of(const std::string& text) { return printable(text.substr(0, kLongestText)); }

std::string place_name(ClusterId cluster, std::int64_t stage) {
  return concat("stage ", stage, " of cluster ", cluster);
}

void Deciding::require(bool condition, const char* expected) {
  if (!condition) {
    refuse_as("Expected ", expected, ".");
  }
}

void Deciding::change(Change change) {
  if (const JobId job = std::visit(AltersLineup{}, change); job != 0) {
    remember_seats(job);
    touched_.insert(job);
    state_.live.kept.erase(job);  // who stays says anew what it has
  }
  if (const auto* lineup = std::get_if<LineupSet>(&change)) {
    state_.live.ready.erase({lineup->job, lineup->cluster});
  }
  for (Hash& hash : apply_change(durable_, change)) {
    released_.insert(std::move(hash));
  }
  decision_.changes.push_back(std::move(change));
}

void Deciding::remember_seats(JobId job) {
  if (!remembered_.insert(job).second) {
    return;  // those who are there now came in this decision
  }
  for (const Cluster& cluster : durable_.jobs.at(job).clusters) {
    for (const Place& place : cluster.places) {
      if (!place.provider.empty()) {
        seated_.emplace(place.provider, job);
      }
    }
  }
}

void Deciding::note(Job& job, const std::string& sentence) {
  told_.insert(job.id);
  change(Noted{job.id, {.at = now_.wall, .text = sentence_of(sentence)}});
}

void Deciding::line(const std::string& sentence) {
  state_.live.lines.push_back({.at = now_.wall, .text = sentence_of(sentence)});
  if (state_.live.lines.size() > kMostLines) {
    state_.live.lines.pop_front();
  }
}

std::string Deciding::name_of(const MemberId& id) const {
  const auto member = durable_.members.find(id);
  return member == durable_.members.end() ? "a stranger" : member->second.name;
}

const Seat* Deciding::find_seat(const MemberId& id) const {
  const auto seat = durable_.seats.find(id);
  return seat == durable_.seats.end() ? nullptr : &seat->second;
}

Decision Deciding::refuse(std::string reason) {
  RAVNEST_CHECK(decision_.changes.empty());
  decision_.is_accepted = false;
  decision_.reason = std::move(reason);
  return std::move(decision_);
}

// What was to be said to the holder of a place that changed hands later in the same decision.
bool Deciding::is_outdated(const Action& action) const {
  return std::visit(
      [&](const auto& each) {
        if constexpr (requires { each.seat; }) {
          const Seat* seat = find_seat(each.provider);
          return seat == nullptr || *seat != each.seat ||
                 find_cluster(durable_.jobs.at(seat->job), seat->cluster)->epoch != each.epoch;
        } else {
          return false;
        }
      },
      action);
}

Decision Deciding::finish(std::string reason) {
  std::erase_if(decision_.actions, [&](const Action& action) { return is_outdated(action); });
  finish_providers();
  for (const JobId job : touched_) {
    assign(job);
  }
  for (const JobId job : told_) {
    act(Tell{job});
  }
  for (const Hash& hash : released_) {
    if (!durable_.references.contains(hash)) {
      act(DropArtifact{hash});
    }
  }
  decision_.reason = std::move(reason);
  return std::move(decision_);
}

// Those who had a place before, and have none now.
void Deciding::finish_providers() {
  for (const auto& [id, job] : seated_) {
    const auto found = state_.live.providers.find(id);
    if (find_seat(id) != nullptr || found == state_.live.providers.end()) {
      continue;
    }
    Provider& provider = found->second;
    state_.live.reports.erase(id);
    provider.let_go_by = Milliseconds{0};
    provider.probe.clear();  // of before; there is another when its port is free
    if (provider.session == 0) {
      continue;
    }
    act(Release{id, provider.session, job});
    if (provider.is_leaving) {
      act(LetGo{id, provider.session});
    }
  }
}

// Everybody in the job hears of the new line-up: those of other clusters are peers in rings.
void Deciding::assign(JobId id) {
  const Job* job = find_job(durable_, id);
  if (job == nullptr || !is_active(job->phase)) {
    return;
  }
  for (const Cluster& cluster : job->clusters) {
    for (std::size_t stage = 0; stage < cluster.places.size(); ++stage) {
      assign({id, cluster.id, static_cast<std::int64_t>(stage)});
    }
  }
}

void Deciding::assign(const Seat& seat) {
  const Cluster& cluster = *find_cluster(durable_.jobs.at(seat.job), seat.cluster);
  const MemberId& provider = cluster.places[static_cast<std::size_t>(seat.stage)].provider;
  if (const std::int64_t session = live(provider).session; session != 0) {
    act(Assign{provider, session, seat, cluster.epoch});
  }
}

}  // namespace ravnest::coordinator
