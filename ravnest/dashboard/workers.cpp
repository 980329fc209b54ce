#include "ravnest/dashboard/workers.h"

#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace ravnest::dashboard {

Workers::Workers(std::size_t most, std::function<void(int)> serve)
    : most_(most), serve_(std::move(serve)) {}

Workers::~Workers() { stop(); }

void Workers::take(int descriptor) {
  const std::scoped_lock lock(mutex_);
  if (is_stopping_) {
    ::close(descriptor);
    return;
  }
  waiting_.push_back(descriptor);
  if (idle_ < waiting_.size() && threads_.size() < most_) {
    threads_.emplace_back([this] { run(); });
  }
  changed_.notify_one();
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
    --idle_;
    if (is_stopping_) {
      return;
    }
    const int descriptor = waiting_.front();
    waiting_.pop_front();
    served_.insert(descriptor);
    lock.unlock();
    serve_(descriptor);
    lock.lock();
    served_.erase(descriptor);
    ::close(descriptor);
  }
}

void Workers::stop() {
  std::vector<std::jthread> threads;
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
    for (const int descriptor : std::exchange(waiting_, {})) {
      ::close(descriptor);
    }
    for (const int descriptor : served_) {
      ::shutdown(descriptor, SHUT_RDWR);
    }
    threads = std::move(threads_);
    threads_.clear();
    changed_.notify_all();
  }
}

}  // namespace ravnest::dashboard
