#include "tests/dashboard/demo/made_up.h"

#include <array>
#include <chrono>
#include <cmath>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/view.h"
#include "tests/dashboard/names.h"

namespace ravnest::dashboard {

namespace {

using namespace coordinator;

std::int64_t wall() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

Now now_of(std::int64_t steps) {
  return {.steady = Milliseconds{1000 * (steps + 1)}, .wall = wall()};
}

// Between 0 and 1, like the load of a machine; another course for each.
double wave(std::int64_t step, double which) {
  const double t = static_cast<double>(step);
  return 0.5 + 0.35 * std::sin(t / 5.0 + which * 2.1) + 0.15 * std::sin(t / 1.7 + which);
}

void add_provider(State& state, const std::string& id, const Measurements& measured,
                  bool is_relayed = false) {
  state.durable.members[id] = {.id = id, .name = id, .enrolled_at = wall() - 7200};
  state.live.providers[id] = {
      .presence = Presence::kPresent,
      .address = concat("192.168.1.", 20 + state.durable.members.size(), ":9000"),
      .is_relayed = is_relayed,
      .measured = measured};
}

ClusterShape shape(std::size_t stages) {
  ClusterShape shape;
  for (std::size_t k = 0; k < stages; ++k) {
    shape.stages.push_back(
        {.first_op = static_cast<std::int64_t>(20 * k),
         .last_op = static_cast<std::int64_t>(20 * (k + 1)),
         .memory_bytes = 1'400'000'000 + static_cast<std::int64_t>(k) * 300'000'000});
  }
  return shape;
}

Cluster cluster(ClusterId id, const std::vector<std::string>& providers, bool is_running = true) {
  Cluster made{.id = id, .shape = id - 1, .epoch = 10 + id, .is_running = is_running};
  for (const std::string& provider : providers) {
    made.places.push_back({.provider = provider});
  }
  return made;
}

}  // namespace

MadeUp::MadeUp(const std::string& scene) {
  state_.durable.boot = 3;
  state_.durable.epoch = 14;
  if (scene != "busy" && scene != "empty" && scene != "hostile") {
    throw_invalid("[demo] expected busy, empty or hostile, got '", scene, "'.");
  }
  if (scene == "empty") {
    return;
  }
  make_busy();
  if (scene == "hostile") {
    make_hostile();
  }
}

void MadeUp::make_busy() {
  const auto measured = [](double ram, std::int64_t threads, double gflops, double mbps,
                           double latency) {
    return Measurements{
        .ram_gb = ram, .threads = threads, .gflops = gflops, .mbps = mbps, .latency_ms = latency};
  };
  add_provider(state_, "ada-desktop", measured(32, 16, 412.5, 940, 0.4));
  add_provider(state_, "bob-laptop", measured(16, 8, 96.2, 88.3, 11));
  add_provider(state_, "cleo-workstation", measured(64, 32, 1240, 940, 0.3));
  add_provider(state_, "dmitri-laptop", measured(8, 4, 51.8, 23.5, 38), true);
  add_provider(state_, "eve-mini", measured(16, 8, 140, 210, 7.5));
  add_provider(state_, "femi-nuc", measured(8, 4, 64, 95, 14));
  add_provider(state_, "gus-old-laptop", measured(4, 2, 11.4, 9.8, 61), true);
  add_provider(state_, "hana-tower", measured(32, 12, 0, 0, 1));
  state_.live.providers["cleo-workstation"].measured.links = {
      {"ada-desktop", {.mbps = 936, .latency_ms = 0.2}},
      {"bob-laptop", {.mbps = 91, .latency_ms = 9.5}}};
  state_.live.providers["gus-old-laptop"].strikes = 3;
  state_.live.providers["gus-old-laptop"].banned_until = Milliseconds{10'000'000};
  state_.live.providers["hana-tower"] = {};
  state_.durable.members["rita"] = {.id = "rita", .name = "rita", .role = Role::kRequester};

  Job running{.id = 4,
              .requester = "rita",
              .name = "digits-cnn",
              .submitted_at = wall() - 1860,
              .phase = Phase::kRunning,
              .reason = "2 clusters train",
              .epoch = 12,
              .plan = JobPlan{.id = "plan-11", .shapes = {shape(3), shape(2)}}};
  running.clusters = {cluster(1, {"ada-desktop", "bob-laptop", "cleo-workstation"}),
                      cluster(2, {"eve-mini", "dmitri-laptop"})};
  running.last_cluster = 2;
  running.restore = RestorePoint{.cluster = 1, .epoch = 11, .version = 400};
  running.notes = {
      {wall() - 1860, "submitted by rita"},
      {wall() - 1852, "planned: 2 clusters, 5 providers"},
      {wall() - 1210, "femi-nuc is lost with stage 1 of cluster 2: it was silent for 5 s"},
      {wall() - 1209, "dmitri-laptop takes stage 1 of cluster 2, with weights from the ring"},
      {wall() - 640, "restore point at version 400"}};
  state_.live.feeds[4] = {};
  Job queued{.id = 5,
             .requester = "rita",
             .name = "sentiment-gru",
             .submitted_at = wall() - 300,
             .phase = Phase::kQueued,
             .reason = "waits for 4 free providers, 1 is free"};
  Job failed{.id = 3,
             .requester = "rita",
             .name = "wide-resnet",
             .submitted_at = wall() - 9000,
             .ended_at = wall() - 8700,
             .phase = Phase::kFailed,
             .reason = "no cluster has the 41.2 GB that its largest operator needs"};
  failed.notes = {{wall() - 8700, failed.reason}};
  Job done{.id = 2,
           .requester = "rita",
           .name = "digits-mlp",
           .submitted_at = wall() - 90'000,
           .ended_at = wall() - 86'000,
           .phase = Phase::kDone,
           .reason = "all results are here"};
  for (const Job& job : {running, queued, failed, done}) {
    state_.durable.jobs[job.id] = job;
  }
  state_.durable.last_job = 5;
  derive(state_.durable);
  say("the server was started for the third time");
  say("hana-tower is enrolled");
  say("gus-old-laptop is banned for 15 s: a third strike");
  for (int i = 0; i < 60; ++i) {
    report();
    ++steps_;
  }
}

void MadeUp::make_hostile() {
  const std::vector<std::string> names = hostile_names();
  std::size_t next = 0;
  const auto take = [&] { return names[next++ % names.size()]; };
  for (auto& [id, member] : state_.durable.members) {
    member.name = take();
  }
  for (auto& [id, job] : state_.durable.jobs) {
    job.name = take();
    job.reason = take();
    job.notes.push_back({wall(), take()});
  }
  for (const std::string& name : names) {
    say(name);
    state_.durable.jobs[4].notes.push_back({wall(), name});
    const std::string id = concat("x", next++);
    add_provider(state_, id, {.ram_gb = 1});
    state_.durable.members[id].name = name;
    state_.live.providers[id].address = name;
  }
}

void MadeUp::say(const std::string& text) { state_.live.lines.push_back({wall(), text}); }

void MadeUp::report() {
  const std::int64_t version = steps_ * 8;
  double which = 0.0;
  for (Cluster& each : state_.durable.jobs[4].clusters) {
    for (std::size_t k = 0; k < each.places.size(); ++k) {
      which += 1.0;
      const double computing = 0.15 + 0.75 * wave(steps_, which);
      const double sending = (1.0 - computing) * wave(steps_ + 40, which * 1.3);
      const bool is_leaf = k + 1 == each.places.size();
      const double noise = 0.06 * (wave(3 * steps_, which) - 0.5);
      const double loss = 2.25 * std::exp(-static_cast<double>(version) / 900.0) + 0.08 + noise;
      const auto planned = shape_of(state_.durable.jobs[4], each).stages[k].memory_bytes;
      state_.live.reports[each.places[k].provider] = {
          .version = version,
          .loss = is_leaf ? loss : 0.0,
          .samples_per_second =
              each.id == 1 ? 412 + 40 * wave(steps_, 0.3) : 96 + 9 * wave(steps_, 4),
          .delay = static_cast<double>(each.places.size() - 1 - k),
          .memory_bytes =
              static_cast<std::int64_t>(static_cast<double>(planned) * (0.7 + 0.2 * computing)),
          .send_mbps = 18.0 + 22.0 * wave(steps_, which + 2),
          .receive_mbps = 16.0 + 20.0 * wave(steps_, which + 5),
          .computing = computing,
          .waiting = 1.0 - computing - sending,
          .sending = sending,
          .averaging = concat("averaging ", version / 16, " with another cluster (85 ms, 3.4 MB)")};
      if (is_leaf && each.id == 1) {
        state_.live.curves[4].push_back(
            {version, loss, 97.5 - 88.0 * std::exp(-static_cast<double>(version) / 700.0)});
      }
    }
  }
}

void MadeUp::step() {
  const std::scoped_lock lock(mutex_);
  ++steps_;
  if (state_.durable.jobs.empty()) {
    return;
  }
  report();
  constexpr std::int64_t kRound = 20;
  auto& eve = state_.live.providers["eve-mini"];
  if (steps_ % kRound == 8) {
    eve.presence = Presence::kSilent;
    say("eve-mini is silent");
  } else if (steps_ % kRound == 16) {
    eve.presence = Presence::kPresent;
    say("eve-mini is heard again");
  }
}

std::string MadeUp::view() const {
  const std::scoped_lock lock(mutex_);
  return coordinator::view(state_, now_of(steps_), 7777);
}

std::optional<std::string> MadeUp::job_view(std::int64_t job) const {
  const std::scoped_lock lock(mutex_);
  if (find_job(state_.durable, job) == nullptr) {
    return std::nullopt;
  }
  return coordinator::job_view(state_, job);
}

std::string MadeUp::metrics() const {
  const std::scoped_lock lock(mutex_);
  return coordinator::metrics(state_);
}

std::optional<std::string> MadeUp::change(const Wish& wish) {
  const std::scoped_lock lock(mutex_);
  return wish.provider.empty() ? change_job(wish) : change_provider(wish);
}

std::optional<std::string> MadeUp::change_provider(const Wish& wish) {
  const auto member = state_.durable.members.find(wish.provider);
  if (member == state_.durable.members.end()) {
    return concat(wish.provider, " is not a member.");
  }
  if (wish.kind == Wish::Kind::kRemoveProvider) {
    if (state_.durable.seats.contains(wish.provider)) {
      return concat(member->second.name, " holds a stage; pause it first.");
    }
    state_.durable.members.erase(member);
    return std::nullopt;
  }
  member->second.is_paused = wish.kind == Wish::Kind::kPauseProvider;
  say(concat(member->second.name, member->second.is_paused ? " is paused" : " is resumed"));
  return std::nullopt;
}

std::optional<std::string> MadeUp::change_job(const Wish& wish) {
  Job* job = find_job(state_.durable, wish.job);
  if (job == nullptr) {
    return concat("there is no job ", wish.job, ".");
  }
  if (wish.kind == Wish::Kind::kForgetJob) {
    state_.durable.jobs.erase(wish.job);
    return std::nullopt;
  }
  job->phase = Phase::kCancelled;
  job->reason = "cancelled by the owner";
  job->ended_at = wall();
  return std::nullopt;
}

}  // namespace ravnest::dashboard
