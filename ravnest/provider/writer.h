#pragma once

#include <functional>
#include <future>

namespace ravnest::provider {

// Writes files beside the loop's work, one at a time. Used by one thread.
class FileWriter {
 public:
  ~FileWriter() {
    if (writing_.valid()) {
      writing_.wait();
    }
  }

  // Throws what the last write threw.
  bool is_free() {
    if (writing_.valid() &&
        writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
      writing_.get();
    }
    return !writing_.valid();
  }

  void write(std::function<void()> job) {
    finish();
    writing_ = std::async(std::launch::async, std::move(job));
  }

  void finish() {
    if (writing_.valid()) {
      writing_.get();
    }
  }

 private:
  std::future<void> writing_;
};

}  // namespace ravnest::provider
