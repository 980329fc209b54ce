#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/transport/options.h"

namespace ravnest::reduce {

// Floats of which parts are lent to messages on their way, without a copy. They are the owner's
// again when all parts came back; the transport may let go of them on any thread.
class LentFloats {
 public:
  explicit LentFloats(std::vector<float> values) : shared_(std::make_shared<Shared>()) {
    shared_->values = std::move(values);
  }

  std::size_t size() const { return shared_->values.size(); }
  // What is lent may be written to only when whoever got it has read it.
  std::span<float> all() { return shared_->values; }

  Bytes lend(std::size_t offset, std::size_t size) {
    {
      const std::lock_guard lock(shared_->mutex);
      ++shared_->lent;
    }
    const auto come_back = [](Shared* shared) {
      const std::lock_guard lock(shared->mutex);
      --shared->lent;
      shared->changed.notify_all();
    };
    return {
        std::shared_ptr<const void>(
            shared_.get(), [shared = shared_, come_back](const void*) { come_back(shared.get()); }),
        std::as_bytes(all().subspan(offset, size))};
  }

  // Waits for what is lent, but not for long: the rest may be with somebody who is lost, and a copy
  // does too.
  std::vector<float> take(transport::Milliseconds patience) {
    std::unique_lock lock(shared_->mutex);
    const bool is_back = shared_->changed.wait_until(lock, transport::deadline_in(patience),
                                                     [this] { return shared_->lent == 0; });
    return is_back ? std::move(shared_->values) : shared_->values;
  }

 private:
  struct Shared {
    std::vector<float> values;
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t lent = 0;
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace ravnest::reduce
