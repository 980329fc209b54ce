#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "ravnest/transport/options.h"

namespace ravnest::transport {

// Pauses between attempts: doubling from the first to the longest, each between half and the whole
// of it, so that many who lost the same peer do not come back at once.
class Backoff {
 public:
  Backoff(Milliseconds first, Milliseconds longest, std::uint64_t seed)
      : first_(first), longest_(longest), next_(first), random_(seed) {}

  Milliseconds next() {
    const Milliseconds whole = next_;
    next_ = std::min(longest_, whole * 2);
    std::uniform_int_distribution<std::int64_t> draw(whole.count() / 2, whole.count());
    return Milliseconds(draw(random_));
  }
  void reset() { next_ = first_; }

 private:
  Milliseconds first_;
  Milliseconds longest_;
  Milliseconds next_;
  std::mt19937_64 random_;
};

}  // namespace ravnest::transport
