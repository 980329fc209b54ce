#include "ravnest/coordinator/view.h"

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/field_json.h"

namespace ravnest::coordinator {

namespace {

using OrderedJson = nlohmann::ordered_json;

// In the list of all jobs: notes of an open one, and ended ones, of which the newest are there.
constexpr std::size_t kFewNotes = 20;
constexpr std::size_t kMostEnded = 64;

std::string name_of(const State& state, const MemberId& id) {
  const auto member = state.durable.members.find(id);
  return member == state.durable.members.end() ? "" : member->second.name;
}

const Provider* find_provider(const State& state, const MemberId& id) {
  const auto found = state.live.providers.find(id);
  return found == state.live.providers.end() ? nullptr : &found->second;
}

OrderedJson report_json(const State& state, const MemberId& id) {
  const auto found = state.live.reports.find(id);
  if (found == state.live.reports.end()) {
    return nullptr;
  }
  const Report& report = found->second;
  return {{"version", report.version},
          {"loss", report.loss},
          {"samples_per_second", report.samples_per_second},
          {"delay", report.delay},
          {"memory_bytes", report.memory_bytes},
          {"send_mbps", report.send_mbps},
          {"receive_mbps", report.receive_mbps},
          {"computing", report.computing},
          {"waiting", report.waiting},
          {"sending", report.sending},
          {"averaging", report.averaging}};
}

// What a stage spends most of its time with.
std::string_view doing(const State& state, const Job& job, const Cluster& cluster,
                       std::size_t stage) {
  const MemberId& id = cluster.places[stage].provider;
  const Provider* provider = find_provider(state, id);
  if (provider == nullptr || provider->presence == Presence::kAwaited) {
    return "is awaited";
  }
  if (provider->presence == Presence::kSilent) {
    return "is silent";
  }
  if (!cluster.is_running) {
    const auto ready = state.live.ready.find({job.id, cluster.id});
    const bool is_ready =
        ready != state.live.ready.end() && ready->second.contains(static_cast<std::int64_t>(stage));
    return is_ready ? "is ready" : "prepares";
  }
  const auto found = state.live.reports.find(id);
  if (found == state.live.reports.end()) {
    return "starts";
  }
  const Report& report = found->second;
  const double most = std::max({report.computing, report.waiting, report.sending});
  return most == report.computing ? "computes" : most == report.sending ? "sends" : "waits";
}

std::string_view role_of(std::size_t stage, std::size_t stages) {
  return stage == 0 ? "root" : stage + 1 == stages ? "leaf" : "stem";
}

// Itself, or one of the links that it opens.
bool is_relayed(const State& state, const MemberId& id) {
  const Provider* provider = find_provider(state, id);
  return (provider != nullptr && provider->is_relayed) ||
         std::ranges::any_of(state.live.relayed,
                             [&](const auto& link) { return link.first == id; });
}

OrderedJson cluster_json(const State& state, const Job& job, const Cluster& cluster) {
  OrderedJson stages = OrderedJson::array();
  const auto& shapes = shape_of(job, cluster).stages;
  for (std::size_t k = 0; k < cluster.places.size(); ++k) {
    const Place& place = cluster.places[k];
    stages.push_back({{"stage", k},
                      {"role", role_of(k, cluster.places.size())},
                      {"provider", place.provider},
                      {"name", name_of(state, place.provider)},
                      {"is_relayed", is_relayed(state, place.provider)},
                      {"weights", to_string(place.origin)},
                      {"first_op", shapes[k].first_op},
                      {"last_op", shapes[k].last_op},
                      {"memory_bytes", shapes[k].memory_bytes},
                      {"doing", doing(state, job, cluster, k)},
                      {"report", report_json(state, place.provider)}});
  }
  return {{"id", cluster.id},
          {"epoch", cluster.epoch},
          {"is_running", cluster.is_running},
          {"stages", std::move(stages)}};
}

OrderedJson notes_json(const std::vector<Note>& notes, std::size_t most) {
  OrderedJson list = OrderedJson::array();
  for (std::size_t i = notes.size() - std::min(notes.size(), most); i < notes.size(); ++i) {
    list.push_back({{"at", notes[i].at}, {"text", notes[i].text}});
  }
  return list;
}

// [[version, loss], …] and [[version, percent], …], the latter where it has changed.
void add_curves(const State& state, JobId job, OrderedJson& json) {
  OrderedJson losses = OrderedJson::array();
  OrderedJson accuracies = OrderedJson::array();
  double last = -1.0;
  if (const auto curve = state.live.curves.find(job); curve != state.live.curves.end()) {
    for (const CurvePoint& point : curve->second) {
      losses.push_back({point.version, point.loss});
      if (point.accuracy >= 0.0 && point.accuracy != last) {
        accuracies.push_back({point.version, point.accuracy});
        last = point.accuracy;
      }
    }
  }
  json["curve"] = std::move(losses);
  json["accuracy"] = std::move(accuracies);
}

// Where it has come to, whoever held it then.
OrderedJson last_json(const State& state, JobId job) {
  const auto curve = state.live.curves.find(job);
  if (curve == state.live.curves.end() || curve->second.empty()) {
    return nullptr;
  }
  const CurvePoint& point = curve->second.back();
  return {{"version", point.version}, {"loss", point.loss}};
}

OrderedJson job_json(const State& state, const Job& job, std::size_t notes) {
  OrderedJson clusters = OrderedJson::array();
  if (is_active(job.phase)) {
    for (const Cluster& cluster : job.clusters) {
      clusters.push_back(cluster_json(state, job, cluster));
    }
  }
  OrderedJson restore;
  if (job.restore) {
    restore = {{"version", job.restore->version}, {"cluster", job.restore->cluster}};
  }
  return {{"id", job.id},
          {"name", job.name},
          {"requester", name_of(state, job.requester)},
          {"phase", to_string(job.phase)},
          {"reason", job.reason},
          {"submitted_at", job.submitted_at},
          {"ended_at", job.ended_at},
          {"epoch", job.epoch},
          {"is_fed", state.live.feeds.contains(job.id)},
          {"restore_point", std::move(restore)},
          {"last", last_json(state, job.id)},
          {"clusters", std::move(clusters)},
          {"notes", notes_json(job.notes, notes)}};
}

// That there is one, and how it stands: no more is a stranger's to know.
OrderedJson closed_job_json(const State& state, const Job& job) {
  Job shown{.id = job.id, .phase = job.phase};
  shown.submitted_at = job.submitted_at;
  shown.ended_at = job.ended_at;
  OrderedJson json = job_json(state, shown, 0);
  json["last"] = nullptr;
  return json;
}

// All that are open, and the newest of those that are over, of which nobody reads the notes here.
OrderedJson jobs_json(const State& state, const Viewer& viewer) {
  std::size_t ended = 0;
  for (const auto& [id, job] : state.durable.jobs) {
    ended += is_over(job.phase) ? 1 : 0;
  }
  OrderedJson jobs = OrderedJson::array();
  for (const auto& [id, job] : state.durable.jobs) {
    if (is_over(job.phase) && ended-- > kMostEnded) {
      continue;
    }
    jobs.push_back(may_see(state, viewer, job)
                       ? job_json(state, job, is_over(job.phase) ? 0 : kFewNotes)
                       : closed_job_json(state, job));
  }
  return jobs;
}

// Each where it was measured: a pair is told of once, or once by either.
OrderedJson links_json(const State& state, const Measurements& measured) {
  OrderedJson links = OrderedJson::array();
  for (const auto& [peer, link] : measured.links) {
    links.push_back({{"provider", peer},
                     {"name", name_of(state, peer)},
                     {"mbps", link.mbps},
                     {"latency_ms", link.latency_ms}});
  }
  return links;
}

OrderedJson provider_json(const State& state, const Member& member, Now now) {
  static const Provider kNobody;
  const Provider* found = find_provider(state, member.id);
  const Provider& provider = found == nullptr ? kNobody : *found;
  OrderedJson seat;
  if (const auto held = state.durable.seats.find(member.id); held != state.durable.seats.end()) {
    seat = {{"job", held->second.job},
            {"cluster", held->second.cluster},
            {"stage", held->second.stage}};
  }
  const auto banned = std::max(provider.banned_until - now.steady, Milliseconds{0});
  return {{"id", member.id},
          {"name", member.name},
          {"presence", to_string(provider.presence)},
          {"is_paused", member.is_paused},
          {"is_leaving", provider.is_leaving},
          {"is_relayed", provider.is_relayed},
          {"address", provider.address},
          {"ram_gb", provider.measured.ram_gb},
          {"threads", provider.measured.threads},
          {"gflops", provider.measured.gflops},
          {"mbps", provider.measured.mbps},
          {"latency_ms", provider.measured.latency_ms},
          {"links", links_json(state, provider.measured)},
          {"strikes", provider.strikes},
          {"banned_seconds", banned.count() / 1000},
          {"place", std::move(seat)}};
}

}  // namespace

std::string_view to_string(Presence presence) {
  switch (presence) {
    case Presence::kAway:
      return "away";
    case Presence::kAwaited:
      return "awaited";
    case Presence::kSilent:
      return "silent";
    case Presence::kPresent:
      return "present";
  }
  RAVNEST_CHECK(false);
}

bool may_see(const State& state, const Viewer& viewer, const Job& job) {
  const auto seat = state.durable.seats.find(viewer.member);
  return viewer.is_owner || job.requester == viewer.member ||
         (seat != state.durable.seats.end() && seat->second.job == job.id);
}

std::string view(const State& state, Now now, std::int64_t port, const Viewer& viewer) {
  OrderedJson providers = OrderedJson::array();
  for (const auto& [id, member] : state.durable.members) {
    if (member.role == Role::kProvider) {
      providers.push_back(provider_json(state, member, now));
    }
  }
  const std::vector<Note> lines(state.live.lines.begin(), state.live.lines.end());
  const OrderedJson view = {{"server",
                             {{"now", now.wall},
                              {"boot", state.durable.boot},
                              {"epoch", state.durable.epoch},
                              {"port", port}}},
                            {"providers", std::move(providers)},
                            {"jobs", jobs_json(state, viewer)},
                            {"lines", notes_json(lines, kMostLines)}};
  return dump(view);
}

std::string job_view(const State& state, JobId id) {
  const Job* job = find_job(state.durable, id);
  if (job == nullptr) {
    throw_invalid("[coordinator] expected a job that is known, got ", id, ".");
  }
  OrderedJson json = job_json(state, *job, kMostNotes);
  add_curves(state, id, json);
  return dump(json);
}

}  // namespace ravnest::coordinator
