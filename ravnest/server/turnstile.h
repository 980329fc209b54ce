#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::server {

// So many calls of one member at a time: each has a thread, and nobody may take them all. Any
// thread.
class Turnstile {
 public:
  explicit Turnstile(std::size_t most) : most_(most) {}

  // For as long as the call goes on. Throws Error(kTimeout) where the member has too many: others
  // must end first.
  class Pass {
   public:
    Pass(Turnstile& turnstile, std::string member)
        : turnstile_(turnstile), member_(std::move(member)) {
      turnstile_.enter(member_);
    }
    ~Pass() { turnstile_.leave(member_); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    Turnstile& turnstile_;
    const std::string member_;
  };

 private:
  void enter(const std::string& member) {
    const std::lock_guard lock(mutex_);
    std::size_t& count = inside_[member];
    if (count >= most_) {
      throw Error(ErrorKind::kTimeout,
                  concat("Expected at most ", most_, " such calls at a time, got one more."));
    }
    ++count;
  }
  void leave(const std::string& member) {
    const std::lock_guard lock(mutex_);
    if (--inside_.at(member) == 0) {
      inside_.erase(member);
    }
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> inside_;  // guarded by mutex_
};

}  // namespace ravnest::server
