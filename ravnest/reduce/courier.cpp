#include "ravnest/reduce/courier.h"

#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/reduce/links.h"

namespace ravnest::reduce {

namespace {

// A send that waits for room looks up so often, in case that the round was abandoned.
constexpr Milliseconds kSlice{50};

}  // namespace

Courier::Courier(const RingOptions& options, transport::Transport& transport, std::string channel,
                 OnError on_error)
    : options_(options),
      transport_(transport),
      channel_(std::move(channel)),
      on_error_(std::move(on_error)),
      thread_([this] { run(); }) {}

Courier::~Courier() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    ++generation_;
  }
  changed_.notify_all();
  thread_.join();
}

void Courier::open(std::size_t rank) {
  std::shared_ptr<transport::Sender> old;
  {
    const std::lock_guard lock(mutex_);
    old = senders_[rank];
  }
  if (old && !is_over(old->state().phase)) {
    return;
  }
  old.reset();
  const std::lock_guard lock(mutex_);
  senders_[rank].reset();
  senders_[rank] = transport_.open(options_.members[rank], channel_);
}

void Courier::send(std::size_t rank, transport::Message message) {
  std::shared_ptr<transport::Sender> sender;
  {
    const std::lock_guard lock(mutex_);
    if (parcels_.empty() && !is_busy_) {
      sender = senders_.at(rank);
    }
  }
  // Where there is room, another thread would only cost a switch.
  if (sender) {
    try {
      sender->send(message, Milliseconds(0));
      return;
    } catch (const std::exception&) {  // the courier finds out whether it lasts
    }
  }
  {
    const std::lock_guard lock(mutex_);
    parcels_.push_back({.rank = rank, .message = std::move(message)});
  }
  changed_.notify_all();
}

void Courier::clear() {
  std::deque<Parcel> parcels;
  const std::lock_guard lock(mutex_);
  parcels.swap(parcels_);
  ++generation_;
}

bool Courier::is_current(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  return generation == generation_;
}

void Courier::run() {
  while (true) {
    Parcel parcel;
    std::uint64_t generation = 0;
    {
      std::unique_lock lock(mutex_);
      is_busy_ = false;
      changed_.wait(lock, [this] { return is_stopping_ || !parcels_.empty(); });
      if (is_stopping_) {
        return;
      }
      parcel = std::move(parcels_.front());
      parcels_.pop_front();
      is_busy_ = true;
      generation = generation_;
    }
    try {
      deliver(parcel, generation);
    } catch (const std::exception& error) {
      if (is_current(generation)) {
        on_error_(parcel.rank, parcel.message.pass, error.what());
      }
    }
  }
}

void Courier::deliver(const Parcel& parcel, std::uint64_t generation) {
  std::shared_ptr<transport::Sender> sender;
  {
    const std::lock_guard lock(mutex_);
    sender = senders_.at(parcel.rank);
  }
  const TimePoint deadline = transport::deadline_in(options_.silence);
  while (is_current(generation)) {
    try {
      sender->send(parcel.message, std::min(kSlice, options_.silence));
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout || std::chrono::steady_clock::now() >= deadline) {
        throw;
      }
    }
  }
}

}  // namespace ravnest::reduce
