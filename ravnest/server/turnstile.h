#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::server {

// So many calls of one member at a time, and of all together: each has a thread, and neither one
// nor several members may take them all. Any thread.
class Turnstile {
 public:
  explicit Turnstile(std::size_t most,
                     std::size_t most_in_all = std::numeric_limits<std::size_t>::max())
      : most_(most), most_in_all_(most_in_all) {}

  // For as long as the call goes on. Throws Error(kTimeout) where there are too many: others must
  // end first.
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
    const auto found = inside_.find(member);
    if (found != inside_.end() && found->second >= most_) {
      throw Error(ErrorKind::kTimeout,
                  concat("Expected at most ", most_, " such calls at a time, got one more."));
    }
    if (in_all_ >= most_in_all_) {
      throw Error(ErrorKind::kTimeout, concat("Expected at most ", most_in_all_,
                                              " such calls of all members at a time, got one more: "
                                              "try again later."));
    }
    ++in_all_;
    ++inside_[member];
  }
  void leave(const std::string& member) {
    const std::lock_guard lock(mutex_);
    --in_all_;
    if (--inside_.at(member) == 0) {
      inside_.erase(member);
    }
  }

  const std::size_t most_;
  const std::size_t most_in_all_;
  std::mutex mutex_;
  std::size_t in_all_ = 0;                     // guarded by mutex_
  std::map<std::string, std::size_t> inside_;  // guarded by mutex_
};

}  // namespace ravnest::server
