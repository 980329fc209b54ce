#include "ravnest/base/in_parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace ravnest {
namespace {

TEST(InParallel, DoesEachOnce) {
  for (const std::size_t count : {0U, 1U, 2U, 1000U}) {
    std::vector<std::atomic<int>> done(count);
    in_parallel(count, [&](std::size_t i) { ++done[i]; });
    EXPECT_TRUE(std::ranges::all_of(done, [](const auto& times) { return times == 1; })) << count;
  }
}

TEST(InParallel, ThrowsWhatOneThrew) {
  const auto fail = [](std::size_t i) {
    if (i == 3) {
      throw std::invalid_argument("three");
    }
  };
  EXPECT_THROW(in_parallel(100, fail), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest
