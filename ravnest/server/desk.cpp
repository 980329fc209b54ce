#include "ravnest/server/desk.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/fault_point.h"
#include "ravnest/coordinator/plan_job.h"

namespace ravnest::server {

using namespace coordinator;  // its words are what is spoken here

namespace {

constexpr Milliseconds kTick{250};
constexpr Milliseconds kSweep{600'000};
constexpr std::size_t kPlanners = 4;
constexpr std::size_t kReachTests = 8;

struct EndedPlanning {};

Standing standing_of(const State& state, const Job& job) {
  Standing standing{.phase = job.phase,
                    .reason = job.reason,
                    .plan = job.plan ? job.plan->id : "",
                    .restored_cluster = job.restore ? job.restore->cluster : 0,
                    .restored = job.restore ? job.restore->version : 0};
  if (const auto feed = state.live.feeds.find(job.id); feed != state.live.feeds.end()) {
    standing.is_reached = !feed->second.is_relayed;
  }
  for (const Cluster& cluster : job.clusters) {
    standing.clusters.emplace(cluster.id, cluster.first);
  }
  if (!is_active(job.phase)) {
    return standing;
  }
  for (const Cluster& cluster : job.clusters) {
    if (!cluster.is_running) {
      continue;
    }
    Root& root = standing.roots.emplace_back();
    root.cluster = cluster.id;
    root.epoch = cluster.epoch;
    root.is_restored = std::ranges::any_of(
        cluster.places, [](const Place& place) { return place.origin == Origin::kCheckpoint; });
    root.provider = find_peer(state, cluster.places.front().provider);
  }
  return standing;
}

}  // namespace

Desk::Desk(DeskOptions options)
    : options_(std::move(options)),
      coordinator_({.data = options_.data, .artifacts = {}}, now()),
      planners_(kPlanners),
      reach_tests_(kReachTests),
      thread_([this] { run(); }) {}

Desk::~Desk() { end(); }

void Desk::end() {
  is_ending_ = true;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

Now Desk::now() {
  using std::chrono::duration_cast;
  return {
      .steady = duration_cast<Milliseconds>(std::chrono::steady_clock::now().time_since_epoch()),
      .wall =
          duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
              .count()};
}

void Desk::post(std::function<void()> task, std::function<void()> dropped) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_over_) {
      tasks_.push_back({.run = std::move(task), .dropped = std::move(dropped)});
      changed_.notify_one();
      return;
    }
  }
  dropped();
}

void Desk::run() {
  auto tick = std::chrono::steady_clock::now();
  auto sweep = tick + kSweep;
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    changed_.wait_until(lock, tick, [this] { return is_over_ || !tasks_.empty(); });
    const std::deque<Task> tasks = std::exchange(tasks_, {});
    lock.unlock();
    for (const Task& task : tasks) {
      run_task(task);
    }
    const auto time = std::chrono::steady_clock::now();
    if (time >= tick) {
      tick = time + kTick;
      run_task({.run = [this] { handle(Tick{}); }, .dropped = [] {}});
    }
    if (time >= sweep) {
      sweep = time + kSweep;
      run_task({.run = [this] { coordinator_.sweep(); }, .dropped = [] {}});
    }
    lock.lock();
  }
  const std::deque<Task> rest = std::exchange(tasks_, {});
  lock.unlock();
  for (const Task& task : rest) {
    task.dropped();
  }
}

void Desk::run_task(const Task& task) {
  if (!is_broken_) {
    try {
      task.run();
      return;
    } catch (const std::exception& error) {
      give_up(error.what());
    }
  }
  task.dropped();
}

void Desk::give_up(const std::string& reason) {
  is_broken_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_over_, true)) {
      return;
    }
  }
  options_.on_broken(reason);
}

Decision Desk::handle(const Event& event) {
  Decision decision = coordinator_.handle(event, now());
  act(decision);
  return decision;
}

Decision Desk::join(const Join& event, std::shared_ptr<Listener> listener) {
  Decision decision = coordinator_.handle(event, now());
  if (decision.is_accepted) {
    sessions_[decision.session] = std::move(listener);
  }
  act(decision);
  return decision;
}

std::shared_ptr<Listener> Desk::find(const MemberId& provider) const {
  const auto live = state().live.providers.find(provider);
  if (live == state().live.providers.end()) {
    return nullptr;
  }
  const auto found = sessions_.find(live->second.session);
  return found == sessions_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Listener>> Desk::find_feeds(const MemberId& requester,
                                                        const std::set<JobId>& jobs) const {
  std::vector<std::shared_ptr<Listener>> result;
  for (const Feed& feed : feeds_) {
    const Job* job = find_job(state().durable, feed.job);
    auto listener = feed.listener.lock();
    if (jobs.contains(feed.job) && job != nullptr && job->requester == requester && listener) {
      result.push_back(std::move(listener));
    }
  }
  return result;
}

void Desk::say(std::int64_t session, const ServerWord& word) {
  if (const auto found = sessions_.find(session); found != sessions_.end()) {
    found->second->say(to_text(word));
  }
}

void Desk::act(const Decision& decision) {
  struct Acting {
    Desk& desk;

    void operator()(const Welcome& action) const {
      const Provider& provider = desk.state().live.providers.at(action.provider);
      desk.say(action.session, Greeting{.session = action.session,
                                        .address = provider.address,
                                        .is_relayed = provider.is_relayed});
    }
    void operator()(const CloseSession& action) const {
      if (const auto found = desk.sessions_.find(action.session); found != desk.sessions_.end()) {
        found->second->end(action.reason);
        desk.sessions_.erase(found);
      }
    }
    void operator()(const LetGo& action) const { desk.say(action.session, MayGo{}); }
    void operator()(const MeasureLinks& action) const {
      Measure word;
      for (const MemberId& peer : action.peers) {
        const Provider& provider = desk.state().live.providers.at(peer);
        word.neighbours.push_back(
            {.provider = peer, .address = provider.address, .probe = provider.probe});
      }
      desk.say(action.session, word);
    }
    void operator()(const MakePlan& action) const { desk.make_plan(action); }
    void operator()(const Assign& action) const {
      if (auto assignment = make_assignment(desk.state(), action.provider)) {
        fault_point("assignment");
        desk.say(action.session, Hold{std::move(*assignment)});
      }
    }
    void operator()(const Start& action) const {
      desk.say(action.session, Begin{{action.seat, action.epoch}});
    }
    void operator()(const KeepCheckpoint& action) const {
      desk.say(action.session, Keep{{action.seat, action.epoch}});
    }
    void operator()(const SendCheckpoint& action) const {
      desk.say(action.session, Send{{action.seat, action.epoch}, action.version});
    }
    void operator()(const Release& action) const { desk.say(action.session, Drop{action.job}); }
    void operator()(const DropArtifact& /*action*/) const {}
    void operator()(const Tell& /*action*/) const {}
  };
  for (const Action& action : decision.actions) {
    std::visit(Acting{*this}, action);
  }
  if (!decision.changes.empty() || !decision.actions.empty()) {
    tell_feeds();
  }
  if (decision.is_accepted && options_.on_change) {
    options_.on_change();
  }
}

void Desk::make_plan(const MakePlan& ask) {
  planners_.post([this, ask] {
    PlanAnswer answer = PlanFailed{.job = ask.job, .epoch = ask.epoch};
    fault_point("plan");
    try {
      answer = plan_job(ask, artifacts(),
                        {.scratch = options_.data / "scratch", .check_interrupted = [this] {
                           if (is_ending_) {
                             throw EndedPlanning();
                           }
                         }});
    } catch (const EndedPlanning&) {
      return;
    } catch (const std::exception& error) {  // a full disk, or a bug: this job's alone
      std::get<PlanFailed>(answer).reason = error.what();
    }
    post([this, answer = std::move(answer)] {
      std::visit([this](const auto& event) { handle(event); }, answer);
    });
  });
}

void Desk::watch(JobId job, const std::shared_ptr<Listener>& listener) {
  std::erase_if(feeds_, [job](const Feed& feed) {
    const auto former = feed.job == job ? feed.listener.lock() : nullptr;
    if (former) {
      former->refuse("The job's data is offered by another now.");
    }
    return former != nullptr;
  });
  feeds_.push_back({.job = job, .listener = listener, .last = ""});
  tell_feeds();
}

bool Desk::unwatch(JobId job, const Listener& listener) {
  return std::erase_if(feeds_, [&](const Feed& feed) {
           return feed.job == job && feed.listener.lock().get() == &listener;
         }) > 0;
}

void Desk::tell_feeds() {
  std::erase_if(feeds_, [this](Feed& feed) {
    const auto listener = feed.listener.lock();
    const Job* job = find_job(state().durable, feed.job);
    if (!listener) {
      return true;
    }
    if (job == nullptr) {
      listener->end("The job was forgotten.");
      return true;
    }
    std::string text = to_text(FeedWord(standing_of(state(), *job)));
    if (text != feed.last) {
      listener->say(text);
      feed.last = std::move(text);
    }
    if (is_over(job->phase)) {
      listener->end("");
      return true;
    }
    return false;
  });
}

}  // namespace ravnest::server
