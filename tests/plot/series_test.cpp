#include "ravnest/plot/series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/plot/numbers.h"

namespace ravnest::plot {
namespace {

using Texts = std::vector<std::string>;

Texts ticks_of(double low, double high, std::size_t most) {
  return tick_texts(round_ticks({.low = low, .high = high}, most));
}

TEST(Ticks, AreRoundNumbersWithinTheRange) {
  EXPECT_EQ(ticks_of(0, 2.5, 6), (Texts{"0.0", "0.5", "1.0", "1.5", "2.0", "2.5"}));
  EXPECT_EQ(ticks_of(0.11, 0.29, 5), (Texts{"0.15", "0.20", "0.25"}));
  EXPECT_EQ(ticks_of(1, 1840, 9), (Texts{"500", "1,000", "1,500"}));
  EXPECT_EQ(ticks_of(-1, 1, 5), (Texts{"-1.0", "-0.5", "0.0", "0.5", "1.0"}));
  EXPECT_EQ(ticks_of(0, 1'000'000, 5), (Texts{"0", "500,000", "1,000,000"}));
}

TEST(Ticks, AreNeverMoreThanAsked) {
  for (const double high : {1.0, 1.7, 3.0, 9.9, 47.0, 1e-7, 1e12}) {
    for (std::size_t most = 2; most < 12; ++most) {
      const auto ticks = round_ticks({.low = 0, .high = high}, most);
      EXPECT_LE(ticks.size(), most) << high;
      EXPECT_GE(ticks.size(), 1U) << high;
    }
  }
}

TEST(Ticks, OfVerySmallAndLargeNumbersAreShort) {
  EXPECT_EQ(ticks_of(0, 4e-8, 3), (Texts{"0", "2e-08", "4e-08"}));
  EXPECT_EQ(ticks_of(0, 4e12, 3), (Texts{"0", "2e+12", "4e+12"}));
}

TEST(Range, GrowsToRoundNumbers) {
  const Range range = rounded({.low = 0.13, .high = 2.31}, 5);
  EXPECT_DOUBLE_EQ(range.low, 0);
  EXPECT_DOUBLE_EQ(range.high, 2.5);
  EXPECT_LT(rounded({.low = 7, .high = 7}, 5).low, 7);
  EXPECT_GT(rounded({.low = 7, .high = 7}, 5).high, 7);
}

TEST(Range, LeavesOutliersOfManyValuesOut) {
  std::vector<double> values(1000, 1.0);
  values[1] = 2.0;
  values[500] = 900.0;
  EXPECT_EQ(shown_range(values, {})->high, 1.0);
  EXPECT_EQ(shown_range(values, std::vector{3.0, kNan})->high, 3.0);
  EXPECT_EQ(shown_range(std::vector{1.0, 900.0}, {})->high, 900.0);
  EXPECT_FALSE(shown_range(std::vector{kNan}, {}).has_value());
}

TEST(Smoothed, KeepsAStraightLineToItsEnds) {
  std::vector<double> line(200);
  for (std::size_t i = 0; i < line.size(); ++i) {
    line[i] = 3.0 - 0.01 * static_cast<double>(i);
  }
  const std::vector<double> smooth = smoothed(line, 10);
  for (std::size_t i = 0; i < line.size(); ++i) {
    EXPECT_NEAR(smooth[i], line[i], 1e-9) << i;
  }
}

TEST(Smoothed, TakesNoiseAway) {
  std::vector<double> noisy(400);
  for (std::size_t i = 0; i < noisy.size(); ++i) {
    noisy[i] = 1.0 + (i * 7919 % 13 < 6 ? 0.5 : -0.5);
  }
  const std::vector<double> smooth = smoothed(noisy, 20);
  for (std::size_t i = 50; i < 350; ++i) {
    EXPECT_NEAR(smooth[i], 1.0, 0.25) << i;
  }
}

TEST(Smoothed, IsNotMovedByASingleSpike) {
  std::vector<double> values(100, 1.0);
  values[40] = 1e6;
  EXPECT_NEAR(smoothed(values, 5)[40], 1.0, 1e-9);
}

TEST(Smoothed, StaysAmongTheValues) {
  std::vector<double> values(200, 0.0);
  for (std::size_t i = 120; i < 190; ++i) {
    values[i] = 1.0 - static_cast<double>(i - 120) / 70.0;  // falls to 0 shortly before the end
  }
  const std::vector<double> smooth = smoothed(values, 20);
  EXPECT_GE(*std::ranges::min_element(smooth), 0.0);
  EXPECT_LE(*std::ranges::max_element(smooth), 1.0);
}

TEST(Smoothed, PassesOverWhatIsNotFinite) {
  std::vector<double> values(100, 2.0);
  values[0] = kInf;
  values[50] = kNan;
  const std::vector<double> smooth = smoothed(values, 5);
  EXPECT_TRUE(std::isinf(smooth[0]));
  EXPECT_TRUE(std::isnan(smooth[50]));
  EXPECT_NEAR(smooth[49], 2.0, 1e-9);
  EXPECT_NEAR(smooth[1], 2.0, 1e-9);
  EXPECT_TRUE(smoothed({}, 5).empty());
}

TEST(Lines, BreakWhereValuesAreNotFinite) {
  const auto lines = lines_of(std::vector{1.0, 2.0, kNan, kNan, 3.0}, 100);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].size(), 2U);
  ASSERT_EQ(lines[1].size(), 1U);
  EXPECT_EQ(lines[1][0].at, 4.0);
  EXPECT_EQ(lines[1][0].value, 3.0);
}

TEST(Lines, KeepTheExtremesOfEveryColumn) {
  std::vector<double> values(10'000, 1.0);
  values[5'003] = 9.0;
  values[5'005] = -9.0;
  const auto lines = lines_of(values, 100);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_LE(lines[0].size(), 200U);
  std::vector<double> seen;
  for (const Sample& sample : lines[0]) {
    if (sample.value != 1.0) {
      seen.push_back(sample.at);
    }
  }
  EXPECT_EQ(seen, (std::vector<double>{5'003, 5'005}));
}

TEST(ShortText, HasThreeDigits) {
  EXPECT_EQ(short_text(0.21349), "0.213");
  EXPECT_EQ(short_text(4), "4.00");
  EXPECT_EQ(short_text(98.12), "98.1");
  EXPECT_EQ(short_text(100), "100");
  EXPECT_EQ(short_text(1239.6), "1,240");
  EXPECT_EQ(short_text(0), "0");
  EXPECT_EQ(short_text(0.0000123), "1.23e-05");
}

}  // namespace
}  // namespace ravnest::plot
