#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>

#include "ravnest/transport/transport.h"

namespace ravnest::transport {

// A handler that collects the messages of one or several channels for one consumer who waits for
// them. Bounded by the channels' windows: a message keeps its credit until the consumer lets go of
// the Delivery. It must outlive the receivers that it was given to.
class Inbox {
 public:
  // For one receiver; call it once for each.
  Handler handler();

  // The next message, in the order of arrival. Empty once every channel has said goodbye. Throws
  // Error(kTimeout) at the deadline; the error of a channel that failed, after what came before it.
  std::optional<Delivery> take(Milliseconds timeout);

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Delivery> deliveries_;
  std::size_t open_ = 0;
  std::exception_ptr error_;
};

}  // namespace ravnest::transport
