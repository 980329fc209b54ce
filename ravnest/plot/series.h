#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ravnest::plot {

// A straight line laid through what is around every value, nearer ones weighing more: each
// `reach` places away takes the weight down by e. It neither lags behind nor bends at the ends.
// A value counts as the median of its neighbourhood, so that a single spike does not; those
// that are not finite count for nothing, and stay as they are.
std::vector<double> smoothed(std::span<const double> values, double reach);

struct Range {
  double low = 0.0;
  double high = 1.0;

  double span() const { return high - low; }
};

// What an axis should show of these values; nothing where none is finite. Outliers, a hundredth
// at either end of many values, do not count, those of `always` do.
std::optional<Range> shown_range(std::span<const double> values, std::span<const double> always);

// A point of a curve; `at` is the number of the value.
struct Sample {
  double at = 0.0;
  double value = 0.0;
};

// Runs of finite values, each to be drawn as one line. Of more than two values a column only the
// lowest and the highest are kept, so that it looks the same.
std::vector<std::vector<Sample>> lines_of(std::span<const double> values, std::size_t columns);

// Round numbers (1, 2 or 5 times a power of ten apart) within the range, `most` or fewer.
std::vector<double> round_ticks(const Range& range, std::size_t most);

// The range widened to round ticks.
Range rounded(const Range& range, std::size_t most);

// Ticks' text: as many decimals as all of them need, thousands grouped.
std::vector<std::string> tick_texts(std::span<const double> ticks);

// Three digits: "0.213", "98.1", "1,240".
std::string short_text(double value);

}  // namespace ravnest::plot
