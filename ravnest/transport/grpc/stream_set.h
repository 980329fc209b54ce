#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "ravnest/transport/carrier.h"
#include "ravnest/transport/session/loop.h"

namespace ravnest::transport {

// The streams that gRPC still works on: keeps them alive meanwhile, and lets a carrier end them all
// and wait until the last is destroyed. They are destroyed on a thread of its own, never on one of
// gRPC's: with the last stream goes the last channel, and gRPC would then wait for its threads on
// one of them. Any thread may call.
class StreamSet : public std::enable_shared_from_this<StreamSet> {
 public:
  // Nothing once stopped.
  template <typename Kind, typename... Arguments>
  std::shared_ptr<Kind> make(Arguments&&... arguments) {
    {
      const std::lock_guard lock(mutex_);
      if (is_stopped_) {
        return nullptr;
      }
      ++alive_;
    }
    const auto destroy_later = [set = shared_from_this()](Kind* stream) {
      static_cast<void>(set->reaper_.post([set, stream] {
        delete stream;
        set->count_down();
      }));
    };
    std::shared_ptr<Kind> stream(new Kind(std::forward<Arguments>(arguments)...), destroy_later);
    const std::lock_guard lock(mutex_);
    working_.insert(stream);
    return stream;
  }

  // gRPC is done with it.
  void release(const std::shared_ptr<Stream>& stream) {
    const std::lock_guard lock(mutex_);
    working_.erase(stream);
  }

  void abort_all(const std::string& reason) {
    std::set<std::shared_ptr<Stream>> streams;
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
      streams = working_;
    }
    for (const auto& stream : streams) {
      stream->abort(reason);
    }
  }

  // After abort_all.
  void wait_until_empty() {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return alive_ == 0; });
    }
    reaper_.stop();
  }

 private:
  void count_down() {
    const std::lock_guard lock(mutex_);
    --alive_;
    changed_.notify_all();
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::set<std::shared_ptr<Stream>> working_;
  std::size_t alive_ = 0;
  bool is_stopped_ = false;

  Loop reaper_{[] { return std::chrono::steady_clock::now(); }};
};

}  // namespace ravnest::transport
