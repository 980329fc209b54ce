#pragma once

#include <grpcpp/server_context.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

namespace ravnest::server {

// Calls on which nothing comes for too long are cancelled: each takes a thread. Any thread.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Patience(std::chrono::milliseconds most) : most_(most) {}

  // While something is awaited of a call.
  class Waiting {
   public:
    Waiting(Patience& patience, ::grpc::ServerContext& call)
        : patience_(patience), place_(patience.add(call)) {}
    ~Waiting() { patience_.remove(place_); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    // Something came: from here on anew.
    void renew() { patience_.renew(place_); }

   private:
    friend class Patience;
    struct Entry {
      ::grpc::ServerContext* call;
      Clock::time_point until;
    };

    Patience& patience_;
    const std::list<Entry>::iterator place_;
  };

 private:
  using Place = std::list<Waiting::Entry>::iterator;

  Place add(::grpc::ServerContext& call) {
    const std::lock_guard lock(mutex_);
    changed_.notify_one();
    return waiting_.insert(waiting_.end(), {.call = &call, .until = Clock::now() + most_});
  }
  void remove(Place place) {
    const std::lock_guard lock(mutex_);
    waiting_.erase(place);
  }
  void renew(Place place) {
    const std::lock_guard lock(mutex_);
    place->until = Clock::now() + most_;
  }

  void run(const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kLook{1000};
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
      for (const Waiting::Entry& entry : waiting_) {
        if (entry.until <= Clock::now()) {
          entry.call->TryCancel();  // what it reads fails, and its handler leaves
        }
      }
      changed_.wait_for(lock, stop, std::min(kLook, most_), [] { return false; });
    }
  }

  const std::chrono::milliseconds most_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::list<Waiting::Entry> waiting_;  // guarded by mutex_
  std::jthread thread_{[this](const std::stop_token& stop) { run(stop); }};
};

}  // namespace ravnest::server
