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

  // After the last one. Throws what that threw.
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
