#include "ravnest/provider/pass_limit.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ravnest::provider {
namespace {

using std::chrono::milliseconds;

// Passes one after the other through a pipeline whose slowest stage takes `work` for one, and whose
// way there and back takes `trip`.
std::size_t limit_after(PassLimit& limit, int passes, milliseconds work, milliseconds trip) {
  for (int i = 0; i < passes; ++i) {
    const milliseconds pace =
        std::max(work, milliseconds(trip.count() / static_cast<int>(limit.value())));
    limit.on_stall(pace - work / 2);
    limit.on_pass(pace);
  }
  return limit.value();
}

TEST(PassLimit, StaysLowWhereMorePassesBringNothing) {
  PassLimit limit(3, 6);
  std::size_t most = 0;
  std::size_t low = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::size_t value = limit_after(limit, 1, milliseconds(10), milliseconds(20));
    most = std::max(most, value);
    low += value == 3 ? 1 : 0;
  }
  EXPECT_LE(most, 4U);
  EXPECT_GT(low, 1700U);
}

TEST(PassLimit, GrowsWithTheWayThereAndBack) {
  PassLimit limit(2, 6);
  EXPECT_EQ(limit_after(limit, 60, milliseconds(10), milliseconds(40)), 4U);
  PassLimit far(2, 6);
  EXPECT_EQ(limit_after(far, 60, milliseconds(10), milliseconds(400)), 6U);
}

TEST(PassLimit, FallsAgainWhenTheWayIsShorter) {
  PassLimit limit(2, 6);
  limit_after(limit, 100, milliseconds(10), milliseconds(60));
  EXPECT_GE(limit.value(), 5U);
  for (int i = 0; i < 2000; ++i) {  // nothing is waited for any more
    limit.on_pass(milliseconds(10));
  }
  EXPECT_EQ(limit.value(), 2U);
}

}  // namespace
}  // namespace ravnest::provider
