#include "ravnest/trust/attempt_limit.h"

#include <algorithm>

namespace ravnest::trust {

bool AttemptLimit::may_try(const std::string& host, TimePoint now) const {
  const auto found = busy_until_.find(host);
  return found == busy_until_.end() ||
         found->second + limits_.refill <= now + limits_.refill * limits_.burst;
}

void AttemptLimit::on_failure(const std::string& host, TimePoint now) {
  std::erase_if(busy_until_, [now](const auto& entry) { return entry.second <= now; });
  if (busy_until_.size() >= limits_.hosts && !busy_until_.contains(host)) {
    const auto oldest =
        std::ranges::min_element(busy_until_, {}, [](const auto& entry) { return entry.second; });
    busy_until_.erase(oldest);
  }
  TimePoint& until = busy_until_[host];
  until = std::max(until, now) + limits_.refill;
}

}  // namespace ravnest::trust
