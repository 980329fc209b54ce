#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "ravnest/transport/options.h"

namespace ravnest::transport {

// Something with deadlines. tick is called on the loop thread, without any lock of the loop.
class Ticking {
 public:
  virtual ~Ticking() = default;
  // Does what is due, and says when it wants to be called next.
  virtual TimePoint tick(TimePoint now) = 0;
};

// A thread of the transport's own: one has deadlines, heartbeats and attempts to connect, another
// gives notices. It sleeps until the earliest deadline or a wake. Any thread may call.
class Loop {
 public:
  explicit Loop(std::function<TimePoint()> now);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Asked for as long as somebody else keeps it.
  void add(const std::shared_ptr<Ticking>& ticking);
  // A deadline came nearer: everyone is asked again.
  void wake();
  // Runs a task on the loop thread, in the order of the calls. What it throws is dropped. False,
  // and nothing happens, once the loop is stopped.
  bool post(std::function<void()> task);
  // Runs what was posted before, then joins the thread. Not from the loop thread.
  void stop();

 private:
  void run();
  TimePoint tick_all();
  void run_tasks();

  std::function<TimePoint()> now_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::weak_ptr<Ticking>> tickings_;
  std::deque<std::function<void()>> tasks_;
  bool is_woken_ = false;
  bool is_stopping_ = false;

  std::jthread thread_;
};

}  // namespace ravnest::transport
