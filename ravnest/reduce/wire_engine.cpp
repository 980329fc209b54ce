#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/reduce/all_reduce.h"
#include "ravnest/reduce/courier.h"
#include "ravnest/reduce/engine.h"
#include "ravnest/reduce/links.h"

namespace ravnest::reduce {

namespace {

using transport::Delivery;

// A chunk is a message, and whoever takes it sees nothing of it before it is whole: on a slow link
// it must be small. After a round that failed they are.
constexpr std::size_t kLeastChunk = std::size_t{16} << 10;
constexpr std::size_t kSmaller = 8;
constexpr Milliseconds kSoon{1000};  // a round that took no longer lets them grow again

// Everything but the handlers and the courier runs on the ring's thread.
class WireEngine : public Engine {
 public:
  WireEngine(const RingOptions& options, transport::Transport& transport, EngineListener& listener)
      : options_(options),
        transport_(transport),
        listener_(listener),
        channel_(concat("reduce.", options.ring, ".data")),
        chunk_(options.largest_chunk),
        courier_(options, transport, channel_,
                 [this](std::size_t rank, std::int64_t round, const std::string& why) {
                   listener_.post([this, rank, round, why] { on_unsent(rank, round, why); });
                 }) {
    const std::size_t size = options.members.size();
    if (size > 1) {  // the usual way, open before it is needed
      open_source((options.rank + size - 1) % size);
      courier_.open((options.rank + 1) % size);
    }
  }
  ~WireEngine() override { sources_.clear(); }
  WireEngine(const WireEngine&) = delete;
  WireEngine& operator=(const WireEngine&) = delete;

  std::string text(std::int64_t) override { return std::to_string(chunk_); }
  void begin(const Task& task, Contribution contribution) override;
  void abort() override;
  Result take() override;
  TimePoint tick(TimePoint now) override;

 private:
  struct Arrival {
    std::size_t rank = 0;
    Delivery delivery;
  };

  void open_source(std::size_t rank);
  void on_delivery(std::size_t rank, Delivery delivery);
  void on_unsent(std::size_t rank, std::int64_t round, const std::string& why);
  void drain();
  void sort(Arrival arrival);
  void work(const std::function<void()>& step);
  void fail(std::size_t suspect, const std::string& why, bool is_proven = false);
  std::size_t chunk_of(const std::string& text) const;
  // For its own sends somebody has half of that.
  Milliseconds patience() const { return 2 * options_.silence; }

  const RingOptions& options_;
  transport::Transport& transport_;
  EngineListener& listener_;
  const std::string channel_;
  std::map<std::size_t, std::unique_ptr<transport::Receiver>> sources_;  // by rank
  std::optional<AllReduce> round_;
  bool is_moving_ = false;
  std::size_t chunk_;  // bytes, where we lead
  TimePoint began_;
  TimePoint heard_;
  std::pair<std::int64_t, std::int64_t> last_{-1, -1};  // epoch and round that began last
  std::vector<Arrival> early_;                          // of a round that is yet to begin here

  std::mutex mutex_;  // guards what follows
  std::deque<Arrival> arrivals_;

  Courier courier_;
};

void WireEngine::open_source(std::size_t rank) {
  auto& source = sources_[rank];
  if (source && !is_over(source->state().phase)) {
    return;
  }
  source.reset();
  source = transport_.receive(
      options_.members[rank], channel_,
      {.on_message = [this, rank](Delivery delivery) { on_delivery(rank, std::move(delivery)); },
       .on_end = {},
       .takes_parts = true});
}

void WireEngine::on_delivery(std::size_t rank, Delivery delivery) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = arrivals_.empty();
    arrivals_.push_back({.rank = rank, .delivery = std::move(delivery)});
  }
  if (is_first) {
    listener_.post([this] { drain(); });
  }
}

void WireEngine::drain() {
  std::deque<Arrival> arrivals;
  {
    const std::lock_guard lock(mutex_);
    arrivals.swap(arrivals_);
  }
  while (!arrivals.empty()) {
    sort(std::move(arrivals.front()));
    arrivals.pop_front();
  }
}

void WireEngine::sort(Arrival arrival) {
  const transport::Message& message = arrival.delivery.message;
  const std::pair of(message.epoch, message.pass);
  heard_ = std::chrono::steady_clock::now();  // what is left of an older round comes first
  if (of > last_) {
    early_.push_back(std::move(arrival));
  } else if (of == last_ && is_moving_) {
    work([&] { round_->take(arrival.rank, message, arrival.delivery.parts); });
  }
}

void WireEngine::work(const std::function<void()>& step) {
  try {
    step();
    if (is_moving_ && round_->is_done()) {
      is_moving_ = false;
      listener_.on_moved(round_->task().round);
    }
  } catch (const Suspicion& suspicion) {
    fail(suspicion.rank(), suspicion.what(), suspicion.is_proven());
  }
}

// All are told the same by the leader; whatever that is, it comes to the same for all.
std::size_t WireEngine::chunk_of(const std::string& text) const {
  std::size_t chunk = options_.largest_chunk;
  std::from_chars(text.data(), text.data() + text.size(), chunk);
  return std::clamp(chunk, std::min(kLeastChunk, options_.largest_chunk), options_.largest_chunk);
}

void WireEngine::begin(const Task& given, Contribution contribution) {
  Task task = given;
  task.largest_chunk = chunk_of(task.text);
  last_ = {task.epoch, task.round};
  round_.emplace(options_, task, std::move(contribution),
                 [this](std::size_t rank, transport::Message message) {
                   courier_.send(rank, std::move(message));
                 });
  is_moving_ = true;
  began_ = heard_ = std::chrono::steady_clock::now();
  const std::size_t size = task.participants.size();
  const bool is_direct = round_->is_trimmed();
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t rank = task.participants[(task.place + step) % size];
    if (is_direct || step == 1) {
      courier_.open(rank);
    }
    if (is_direct || step + 1 == size) {
      open_source(rank);
    }
  }
  work([&] { round_->start(); });
  std::vector<Arrival> early;
  early.swap(early_);
  for (Arrival& arrival : early) {
    sort(std::move(arrival));
  }
}

void WireEngine::abort() {
  is_moving_ = false;
  chunk_ = chunk_of(std::to_string(chunk_ / kSmaller));
  round_.reset();
  courier_.clear();
}

Engine::Result WireEngine::take() {
  RAVNEST_CHECK(round_ && !is_moving_);
  Result result = round_->result();
  round_.reset();
  if (std::chrono::steady_clock::now() - began_ < kSoon) {
    chunk_ = std::min(2 * chunk_, options_.largest_chunk);
  }
  return result;
}

void WireEngine::fail(std::size_t suspect, const std::string& why, bool is_proven) {
  if (!std::exchange(is_moving_, false)) {
    return;
  }
  courier_.clear();
  listener_.on_failed(
      round_->task().round,
      {.suspect = suspect, .progress = round_->received(), .why = why, .is_proven = is_proven});
}

void WireEngine::on_unsent(std::size_t rank, std::int64_t round, const std::string& why) {
  if (is_moving_ && round_->task().round == round) {
    fail(rank, concat("took nothing: ", why));
  }
}

TimePoint WireEngine::tick(TimePoint now) {
  if (!is_moving_) {
    return TimePoint::max();
  }
  const TimePoint deadline = transport::after(heard_, patience());
  if (now < deadline) {
    return deadline;
  }
  fail(round_->awaited(), concat("sent nothing for ", patience().count(), " ms"));
  return TimePoint::max();
}

}  // namespace

std::unique_ptr<Engine> make_wire_engine(const RingOptions& options,
                                         transport::Transport& transport,
                                         EngineListener& listener) {
  return std::make_unique<WireEngine>(options, transport, listener);
}

}  // namespace ravnest::reduce
