#include "ravnest/reduce/ring.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/reduce/latest.h"
#include "ravnest/reduce/links.h"
#include "ravnest/reduce/member.h"
#include "ravnest/reduce/sums.h"

namespace ravnest::reduce {

namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kFarewell{1000};  // for the last words to those who may be gone

RingOptions checked(RingOptions options) {
  const std::size_t members = options.members.size();
  if (members == 0 || options.rank >= members) {
    throw_invalid("[reduce] expected a rank below the number of members, got ", options.rank,
                  " of ", members, ".");
  }
  for (std::size_t rank = 0; rank < members; ++rank) {
    const auto same = [&](const transport::Peer& peer) {
      return peer.name == options.members[rank].name;
    };
    if (std::ranges::count_if(options.members, same) != 1) {
      throw_invalid("[reduce] expected members of different names, got ",
                    options.members[rank].name, " twice.");
    }
  }
  if (options.exact > options.values) {
    throw_invalid("[reduce] expected no more exact values than ", options.values, ", got ",
                  options.exact, ".");
  }
  if (options.terms < 0) {
    throw_invalid("[reduce] expected terms from 0, got ", options.terms, ".");
  }
  if (options.silence.count() <= 0 || options.patience.count() <= 0) {
    throw_invalid("[reduce] expected silence and patience above 0 ms, got ",
                  options.silence.count(), " and ", options.patience.count(), ".");
  }
  return options;
}

std::int64_t draw_incarnation() {
  std::random_device random;
  return static_cast<std::int64_t>((std::uint64_t{random()} << 31 ^ random()) >> 1) + 1;
}

}  // namespace

// The thread and what it owns.
class Ring::Core : public MemberActions, public EngineListener {
 public:
  Core(RingOptions options, transport::Transport& transport, RingListener& listener,
       MakeEngine make_engine)
      : options_(checked(std::move(options))),
        transport_(transport),
        listener_(listener),
        make_engine_(std::move(make_engine)),
        member_(options_, draw_incarnation(), *this) {}
  ~Core() override { stop(); }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void start();
  void stop();
  void post(std::function<void()> task) override;
  Status status() const;

  void offer(bool is_final);
  void contribute(std::int64_t round, std::optional<Contribution> contribution);
  void fetch_latest();
  void give_latest(std::int64_t ticket, Contribution latest, std::int64_t round);

  // EngineListener.
  void on_moved(std::int64_t round) override;
  void on_failed(std::int64_t round, Failure failure) override;

  // MemberActions.
  void say(std::size_t rank, const Word& word) override { links_->say(rank, word); }
  void begin(std::int64_t round) override;
  std::string engine_text(std::int64_t round) override { return engine_->text(round); }
  void move(const Task& task) override { engine_->begin(task, std::move(contribution_)); }
  void stop_moving() override { engine_->abort(); }
  void commit(const Task& task, bool is_final) override;
  void abandon(std::int64_t round, const std::string& why) override;
  void catch_up(const Commit& latest) override { latest_->want(latest, Clock::now()); }
  void notice(const std::string& sentence) override { listener_.on_notice(sentence); }
  void warn(const std::string& sentence) override { listener_.on_warning(sentence); }
  void waiting(const std::string& sentence) override { listener_.on_waiting(sentence); }
  void refuse_terms(std::size_t rank) override {
    // Not before our own words can reach it: it would never know why we left.
    if (links_->has_met(rank) && !std::exchange(has_refused_terms_, true)) {
      listener_.on_other_terms(options_.members[rank].name);
    }
  }

 private:
  void run();
  // What fails is told, and holds up nothing else.
  void attempt(const std::function<void()>& step);
  TimePoint tick(TimePoint now);
  void hear(std::size_t rank, const Word& word);
  void on_latest(Contribution latest, const Commit& commit);
  void publish();

  const RingOptions options_;
  transport::Transport& transport_;
  RingListener& listener_;
  const MakeEngine make_engine_;

  // Owned by the thread, once it runs.
  Member member_;
  std::unique_ptr<Links> links_;
  std::unique_ptr<Latest> latest_;
  std::unique_ptr<Engine> engine_;
  Contribution contribution_;
  TimePoint began_;
  TimePoint next_tick_;
  bool has_refused_terms_ = false;
  bool is_doubtful_ = false;  // a round failed, perhaps by our values: look before the next
  std::uint64_t averages_ = 0;
  std::uint64_t abandoned_ = 0;
  std::uint64_t nbytes_sent_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool is_stopping_ = false;
  Status status_;

  std::thread thread_;
};

void Ring::Core::start() {
  RAVNEST_CHECK(!thread_.joinable());
  links_ = std::make_unique<Links>(
      options_, transport_,
      [this](std::size_t rank, Word word) {
        post([this, rank, word = std::move(word)] { hear(rank, word); });
      },
      [this](std::size_t rank, const std::string& why) {
        post([this, rank, why] {
          warn(concat(options_.members[rank].name, " sent what is no word: ", printable(why)));
        });
      });
  latest_ = std::make_unique<Latest>(
      options_, transport_,
      Latest::Hooks{
          .say = [this](std::size_t rank, const FetchWord& word) { say(rank, word); },
          .post = [this](std::function<void()> task) { post(std::move(task)); },
          .on_latest = [this](Contribution values,
                              const Commit& commit) { on_latest(std::move(values), commit); },
          .on_wanted = [this](std::int64_t ticket) { listener_.on_wanted(ticket); }});
  engine_ = make_engine_(options_, transport_, *this);
  thread_ = std::thread([this] { run(); });
}

void Ring::Core::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Ring::Core::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) {
      return;
    }
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Ring::Core::run() {
  member_.start(Clock::now());
  TimePoint deadline = Clock::now();
  while (true) {
    std::deque<std::function<void()>> tasks;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, deadline, [this] { return is_stopping_ || !tasks_.empty(); });
      if (is_stopping_) {
        break;
      }
      tasks.swap(tasks_);
    }
    deadline = transport::after(Clock::now(), options_.silence);
    for (const auto& task : tasks) {
      attempt(task);
    }
    tasks.clear();
    attempt([&] { deadline = tick(Clock::now()); });
    publish();
  }
  // In this order: nobody calls us back from here on.
  engine_.reset();
  latest_.reset();
  links_->close(std::min(options_.silence, kFarewell));
  links_.reset();
}

void Ring::Core::attempt(const std::function<void()>& step) {
  try {
    step();
  } catch (const std::exception& error) {  // a transport that is no more; the others go on
    warn(concat(options_.members[options_.rank].name, " cannot average: ", error.what()));
  }
}

TimePoint Ring::Core::tick(TimePoint now) {
  if (now >= next_tick_) {
    for (std::size_t rank = 0; rank < options_.members.size(); ++rank) {
      if (rank != options_.rank) {
        member_.set_link(rank, links_->link(rank, now), now);
      }
    }
    next_tick_ = std::min(member_.tick(now), links_->tick(now));
  }
  return std::min({next_tick_, latest_->tick(now), engine_->tick(now)});
}

void Ring::Core::hear(std::size_t rank, const Word& word) {
  const TimePoint now = Clock::now();
  try {
    if (const auto* fetch = std::get_if<FetchWord>(&word)) {
      latest_->hear(rank, *fetch, member_.history(), now);
    } else if (const auto* leader = std::get_if<LeaderWord>(&word)) {
      member_.hear(rank, *leader, now);
    } else {
      member_.hear(rank, std::get<MemberWord>(word), now);
    }
  } catch (const std::invalid_argument& error) {
    warn(concat(options_.members[rank].name, " sent what it cannot mean: ", error.what()));
  }
  next_tick_ = std::min(next_tick_, transport::after(now, Milliseconds(1)));
}

void Ring::Core::offer(bool is_final) {
  post([this, is_final] { member_.offer(is_final, Clock::now()); });
}

void Ring::Core::contribute(std::int64_t round, std::optional<Contribution> contribution) {
  if (contribution && (contribution->values.size() != options_.values ||
                       contribution->maxima.size() != options_.maxima)) {
    throw_invalid("[reduce] expected a contribution of ", options_.values, " values and ",
                  options_.maxima, " maxima, got ", contribution->values.size(), " and ",
                  contribution->maxima.size(), ".");
  }
  auto given = std::make_shared<std::optional<Contribution>>(std::move(contribution));
  post([this, round, given] {
    if (round != member_.round()) {
      return;
    }
    const bool is_there = given->has_value() && (!is_doubtful_ || are_finite((*given)->values));
    is_doubtful_ = !is_there;
    contribution_ = is_there ? std::move(**given) : Contribution{};
    member_.contributed(round, is_there, Clock::now());
  });
}

void Ring::Core::fetch_latest() {
  post([this] { latest_->want(latest_of(member_.history()), Clock::now()); });
}

void Ring::Core::give_latest(std::int64_t ticket, Contribution latest, std::int64_t round) {
  auto given = std::make_shared<Contribution>(std::move(latest));
  post([this, ticket, given, round] {
    const auto& history = member_.history();
    // The newest: those who were apart for a while have counted their rounds each for itself.
    const auto found = std::find_if(history.rbegin(), history.rend(),
                                    [round](const Commit& c) { return c.round == round; });
    latest_->give(ticket, std::move(*given), found == history.rend() ? Commit{} : *found);
  });
}

void Ring::Core::on_latest(Contribution latest, const Commit& commit) {
  listener_.on_latest(std::move(latest), commit.round);
  member_.caught_up(commit, Clock::now());
}

void Ring::Core::on_moved(std::int64_t round) {
  post([this, round] { member_.moved(round, Clock::now()); });
}

void Ring::Core::on_failed(std::int64_t round, Failure failure) {
  post([this, round, failure = std::move(failure)] {
    member_.failed(round, failure, Clock::now());
  });
}

void Ring::Core::begin(std::int64_t round) {
  began_ = Clock::now();
  listener_.on_begin(round);
}

void Ring::Core::commit(const Task& task, bool is_final) {
  Engine::Result result = engine_->take();
  Average average{.round = task.round,
                  .result = std::move(result.contribution),
                  .is_final = is_final,
                  .nbytes_sent = result.nbytes_sent,
                  .duration = std::chrono::duration_cast<Milliseconds>(Clock::now() - began_),
                  .left_out = std::move(result.left_out)};
  for (const std::size_t rank : task.participants) {
    average.members.push_back(options_.members[rank].name);
  }
  ++averages_;
  nbytes_sent_ += result.nbytes_sent;
  listener_.on_average(std::move(average));
}

void Ring::Core::abandon(std::int64_t round, const std::string& why) {
  ++abandoned_;
  is_doubtful_ = true;
  contribution_ = {};
  listener_.on_abandoned(round, why, member_.is_offered());
}

void Ring::Core::publish() {
  Status status{.round = member_.round(),
                .committed = latest_of(member_.history()).round,
                .leader = options_.members[member_.leader()].name,
                .averages = averages_,
                .abandoned = abandoned_,
                .nbytes_sent = nbytes_sent_};
  for (const std::size_t rank : member_.lost()) {
    status.lost.push_back(options_.members[rank].name);
  }
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
}

Ring::Status Ring::Core::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

Ring::Ring(RingOptions options, transport::Transport& transport, RingListener& listener,
           const MakeEngine& make_engine)
    : core_(std::make_unique<Core>(std::move(options), transport, listener, make_engine)) {}
Ring::~Ring() = default;
void Ring::start() { core_->start(); }
void Ring::offer() { core_->offer(false); }
void Ring::offer_final() { core_->offer(true); }
void Ring::contribute(std::int64_t round, std::optional<Contribution> contribution) {
  core_->contribute(round, std::move(contribution));
}
void Ring::fetch_latest() { core_->fetch_latest(); }
void Ring::give_latest(std::int64_t ticket, Contribution latest, std::int64_t round) {
  core_->give_latest(ticket, std::move(latest), round);
}
void Ring::stop() { core_->stop(); }
Ring::Status Ring::status() const { return core_->status(); }

}  // namespace ravnest::reduce
