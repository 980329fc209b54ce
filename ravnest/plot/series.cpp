#include "ravnest/plot/series.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"

namespace ravnest::plot {

namespace {

constexpr std::size_t kUncutValues = 100;  // all of which are shown

// Distance of round numbers so that at most `most` of them lie in a span.
double tick_step(double span, std::size_t most) {
  const double least = span / static_cast<double>(std::max<std::size_t>(most, 1));
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) {
      return factor * power;
    }
  }
  return 10.0 * power;
}

std::string fixed(double value, int decimals) {
  std::array<char, 64> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value,
                                          std::chars_format::fixed, decimals);
  RAVNEST_CHECK(error == std::errc());
  return {text.data(), end};
}

std::string general(double value, int digits) {
  std::array<char, 64> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value,
                                          std::chars_format::general, digits);
  RAVNEST_CHECK(error == std::errc());
  return {text.data(), end};
}

int decimals_of(double step) {
  for (int decimals = 0; decimals < 6; ++decimals) {
    const double scaled = step * std::pow(10.0, decimals);
    if (std::abs(scaled - std::round(scaled)) <= 1e-6 * scaled) {
      return decimals;
    }
  }
  return 6;
}

// The places of a piece that stand for all: its lowest and its highest, in their order.
void add_extremes(std::span<const double> values, std::size_t from, std::size_t to,
                  std::vector<Sample>& line) {
  const auto piece = values.subspan(from, to - from);
  const auto [low, high] = std::ranges::minmax_element(piece);
  const auto sample = [&](auto place) {
    return Sample{static_cast<double>(from) + static_cast<double>(place - piece.begin()), *place};
  };
  line.push_back(sample(std::min(low, high)));
  if (low != high) {
    line.push_back(sample(std::max(low, high)));
  }
}

}  // namespace

std::optional<Range> shown_range(std::span<const double> values, std::span<const double> always) {
  std::vector<double> sorted;
  std::ranges::copy_if(values, std::back_inserter(sorted),
                       [](double x) { return std::isfinite(x); });
  if (sorted.empty()) {
    return std::nullopt;
  }
  std::ranges::sort(sorted);
  const std::size_t cut = sorted.size() <= kUncutValues ? 0 : sorted.size() / 100;
  Range range{.low = sorted[cut], .high = sorted[sorted.size() - 1 - cut]};
  for (const double value : always) {
    if (std::isfinite(value)) {
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  }
  return range;
}

std::vector<std::vector<Sample>> lines_of(std::span<const double> values, std::size_t columns) {
  std::vector<std::vector<Sample>> lines;
  const std::size_t width =
      std::max<std::size_t>(values.size() / std::max<std::size_t>(columns, 1), 1);
  for (std::size_t from = 0; from < values.size();) {
    if (!std::isfinite(values[from])) {
      ++from;
      continue;
    }
    std::vector<Sample>& line = lines.emplace_back();
    while (from < values.size() && std::isfinite(values[from])) {
      std::size_t to = from;
      while (to < values.size() && to < from + width && std::isfinite(values[to])) {
        ++to;
      }
      add_extremes(values, from, to, line);
      from = to;
    }
  }
  return lines;
}

std::vector<double> round_ticks(const Range& range, std::size_t most) {
  if (!(range.span() > 0.0) || most < 2) {
    return {range.low};
  }
  const double step = tick_step(range.span(), most - 1);
  std::vector<double> ticks;
  const double slack = 1e-9 * range.span();
  for (double i = std::ceil((range.low - slack) / step); i * step <= range.high + slack; ++i) {
    ticks.push_back(i * step);
  }
  return ticks;
}

Range rounded(const Range& range, std::size_t most) {
  Range wide = range;
  if (!(range.span() > 1e-9 * std::max(std::abs(range.low), std::abs(range.high)))) {
    const double half = range.low == 0 ? 1 : std::abs(range.low) / 10;
    wide = {.low = range.low - half, .high = range.high + half};
  }
  const double step = tick_step(wide.span(), most);
  return {.low = std::floor(wide.low / step + 1e-9) * step,
          .high = std::ceil(wide.high / step - 1e-9) * step};
}

std::vector<std::string> tick_texts(std::span<const double> ticks) {
  if (ticks.empty()) {
    return {};
  }
  const double largest = std::max(std::abs(ticks.front()), std::abs(ticks.back()));
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : largest;
  const bool is_plain = largest <= 1e7 && (step >= 1e-6 || largest == 0.0);
  std::vector<std::string> texts;
  for (const double tick : ticks) {
    const double value = std::abs(tick) < 1e-9 * step ? 0.0 : tick;  // without a sign
    if (!is_plain) {
      texts.push_back(general(value, 4));
    } else if (const int decimals = decimals_of(step); decimals > 0) {
      texts.push_back(fixed(value, decimals));
    } else {
      texts.push_back(format_grouped(std::llround(value)));
    }
  }
  return texts;
}

std::string short_text(double value) {
  const double size = std::abs(value);
  if (value == 0 || size < 1e-3 || size >= 1e9) {
    return general(value, 3);
  }
  if (size >= 99.95) {
    return size < 999.5 ? fixed(value, 0) : format_grouped(std::llround(value));
  }
  return fixed(value, size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

}  // namespace ravnest::plot
