#include "ravnest/transport/session/loop.h"

#include <algorithm>
#include <utility>

namespace ravnest::transport {

Loop::Loop(std::function<TimePoint()> now) : now_(std::move(now)), thread_([this] { run(); }) {}

Loop::~Loop() { stop(); }

void Loop::add(const std::shared_ptr<Ticking>& ticking) {
  const std::lock_guard lock(mutex_);
  tickings_.push_back(ticking);
  is_woken_ = true;
  changed_.notify_one();
}

void Loop::wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  changed_.notify_one();
}

bool Loop::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_) {
    return false;
  }
  tasks_.push_back(std::move(task));
  changed_.notify_one();
  return true;
}

void Loop::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Loop::run() {
  TimePoint next = now_();
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto is_due = [this] { return is_woken_ || is_stopping_ || !tasks_.empty(); };
      if (next == TimePoint::max()) {
        changed_.wait(lock, is_due);
      } else if (const auto left = next - now_(); left > left.zero()) {
        changed_.wait_for(lock, left, is_due);
      }
      is_woken_ = false;
      if (is_stopping_ && tasks_.empty()) {
        return;
      }
    }
    run_tasks();
    next = tick_all();
  }
}

void Loop::run_tasks() {
  while (true) {
    std::function<void()> task;
    {
      const std::lock_guard lock(mutex_);
      if (tasks_.empty()) {
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    try {
      task();
    } catch (...) {  // a notice that its reader could not stand
    }
  }
}

TimePoint Loop::tick_all() {
  std::vector<std::shared_ptr<Ticking>> alive;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(tickings_, [](const auto& ticking) { return ticking.expired(); });
    for (const auto& ticking : tickings_) {
      if (auto kept = ticking.lock()) {
        alive.push_back(std::move(kept));
      }
    }
  }
  TimePoint next = TimePoint::max();
  for (const auto& ticking : alive) {
    next = std::min(next, ticking->tick(now_()));
  }
  return next;
}

}  // namespace ravnest::transport
