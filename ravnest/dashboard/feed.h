#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ravnest/dashboard/http_server.h"

namespace ravnest::dashboard {

// Tells watchers how things stand, as server-sent events. However many watch and however often
// something changes, a view is made for all of them at once and at most every `between_events`,
// by a thread of its own.
class Feed {
 public:
  Feed(std::function<std::string()> view, const HttpLimits& limits);
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  void notify();
  // Every watcher's next() returns.
  void close();

  // A seat among the watchers, as long as it lives. One thread has it.
  class Watcher {
   public:
    explicit Watcher(Feed& feed) : feed_(feed) {}
    ~Watcher();
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    // Waits for the next event, or a heartbeat; the first is how things stand now. Empty: the
    // server ends.
    std::string next();

   private:
    Feed& feed_;
    bool has_begun_ = false;
    std::uint64_t seen_ = 0;
  };
  // Nothing when all seats are taken.
  std::shared_ptr<Watcher> find_seat();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  void run();

  const std::function<std::string()> view_;
  const HttpLimits limits_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_closed_ = false;
  std::size_t watchers_ = 0;
  std::uint64_t asked_ = 0;  // calls of notify()
  std::uint64_t told_ = 0;   // of them, those that event_ covers
  std::shared_ptr<const std::string> event_;

  std::jthread thread_;
};

}  // namespace ravnest::dashboard
