#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "ravnest/trust/attempt_limit.h"
#include "ravnest/trust/digest.h"

namespace ravnest::dashboard {

// Who has shown the owner's secret. A session is a random word of 256 bits, good for twelve hours
// or until the server ends; only its hash is kept. An address has five failed attempts free, and
// then one every twelve seconds. Any thread.
class Sessions {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::hours kGoodFor{12};

  struct Opened {
    bool may_try = true;
    std::string word;  // empty: the secret was wrong
  };
  // `is_right` is asked at most once, one attempt at a time.
  Opened open(const std::string& host, TimePoint now, const std::function<bool()>& is_right);
  bool is_open(std::string_view word, TimePoint now) const;
  void close(std::string_view word);

 private:
  mutable std::mutex mutex_;
  trust::AttemptLimit attempts_{{.burst = 5, .refill = std::chrono::seconds{12}}};
  std::map<trust::Digest, TimePoint> until_;
};

// Under which attempts from an address are counted: itself, for IPv6 its /64 network.
std::string counted_host(const std::string& address);

}  // namespace ravnest::dashboard
