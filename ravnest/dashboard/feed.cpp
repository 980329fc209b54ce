#include "ravnest/dashboard/feed.h"

#include <exception>
#include <string_view>
#include <utility>

namespace ravnest::dashboard {

namespace {

// As many lines of data as the text has.
std::string state_event(std::string_view text) {
  std::string event = "event: state\ndata: ";
  for (const char c : text) {
    event += c;
    if (c == '\n') {
      event += "data: ";
    }
  }
  event += "\n\n";
  return event;
}

constexpr std::string_view kHeartbeat = ":\n\n";

}  // namespace

Feed::Feed(std::function<std::string()> view, const HttpLimits& limits)
    : view_(std::move(view)), limits_(limits), thread_([this] { run(); }) {}

Feed::~Feed() { close(); }

void Feed::notify() {
  const std::scoped_lock lock(mutex_);
  ++asked_;
  changed_.notify_all();
}

void Feed::close() {
  const std::scoped_lock lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

std::shared_ptr<Feed::Watcher> Feed::find_seat() {
  const std::scoped_lock lock(mutex_);
  if (is_closed_ || watchers_ >= limits_.watchers) {
    return nullptr;
  }
  ++watchers_;
  changed_.notify_all();
  return std::make_shared<Watcher>(*this);
}

void Feed::run() {
  std::unique_lock lock(mutex_);
  TimePoint next{};
  while (!is_closed_) {
    if (watchers_ == 0 || asked_ == told_) {
      changed_.wait(lock);
      continue;
    }
    if (std::chrono::steady_clock::now() < next) {
      changed_.wait_until(lock, next);
      continue;
    }
    const std::uint64_t covered = asked_;
    lock.unlock();
    std::shared_ptr<const std::string> event;
    try {
      event = std::make_shared<const std::string>(state_event(view_()));
    } catch (const std::exception&) {
      // Watchers keep what they have; whoever asks for the state is told of the failure.
    }
    next = std::chrono::steady_clock::now() + limits_.between_events;
    lock.lock();
    told_ = covered;
    event_ = std::move(event);
    changed_.notify_all();
  }
}

Feed::Watcher::~Watcher() {
  const std::scoped_lock lock(feed_.mutex_);
  --feed_.watchers_;
}

std::string Feed::Watcher::next() {
  std::unique_lock lock(feed_.mutex_);
  if (!has_begun_) {
    has_begun_ = true;
    seen_ = feed_.told_;
    lock.unlock();
    return state_event(feed_.view_());
  }
  feed_.changed_.wait_for(lock, feed_.limits_.heartbeat,
                          [this] { return feed_.is_closed_ || feed_.told_ != seen_; });
  if (feed_.is_closed_) {
    return "";
  }
  if (std::exchange(seen_, feed_.told_) == feed_.told_ || feed_.event_ == nullptr) {
    return std::string(kHeartbeat);
  }
  return *feed_.event_;
}

}  // namespace ravnest::dashboard
