#include "ravnest/transport/inbox.h"

#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::transport {

Handler Inbox::handler() {
  {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  return {.on_message =
              [this](Delivery delivery) {
                const std::lock_guard lock(mutex_);
                deliveries_.push_back(std::move(delivery));
                changed_.notify_one();
              },
          .on_end =
              [this](const std::exception_ptr& error) {
                const std::lock_guard lock(mutex_);
                --open_;
                error_ = error_ ? error_ : error;
                changed_.notify_all();
              }};
}

std::optional<Delivery> Inbox::take(Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto is_done = [this] { return !deliveries_.empty() || error_ || open_ == 0; };
  if (!changed_.wait_until(lock, deadline_in(timeout), is_done)) {
    throw Error(ErrorKind::kTimeout,
                concat("[transport] no message came for ", timeout.count(), " ms."));
  }
  if (!deliveries_.empty()) {
    std::optional<Delivery> first(std::move(deliveries_.front()));
    deliveries_.pop_front();
    return first;
  }
  if (error_) {
    std::rethrow_exception(error_);
  }
  return std::nullopt;
}

}  // namespace ravnest::transport
