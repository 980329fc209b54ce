#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ravnest/plot/series.h"

namespace ravnest::plot {

namespace {

constexpr std::size_t kNeighbours = 2;  // to either side, of a median

std::vector<double> medians(std::span<const double> values) {
  std::vector<double> result(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      continue;
    }
    // As many to one side as to the other, or the ends would bend.
    const std::size_t side = std::min({kNeighbours, i, values.size() - 1 - i});
    std::array<double, 2 * kNeighbours + 1> near{};
    const auto end =
        std::ranges::copy_if(values.subspan(i - side, 2 * side + 1), near.begin(), [](double x) {
          return std::isfinite(x);
        }).out;
    const auto middle = near.begin() + (end - near.begin()) / 2;
    std::nth_element(near.begin(), middle, end);
    result[i] = *middle;
  }
  return result;
}

// Weighted sums over the values to one side, by their distance.
struct Moments {
  double weight = 0.0;
  double distance = 0.0;
  double square = 0.0;
  double value = 0.0;
  double product = 0.0;

  void add(double each) {
    if (std::isfinite(each)) {
      weight += 1;
      value += each;
    }
  }
  // All are one place further away.
  void step(double keep) {
    square = keep * (square + 2 * distance + weight);
    distance = keep * (distance + weight);
    weight *= keep;
    product = keep * (product + value);
    value *= keep;
  }
};

// The height of the line of least squares where the distance is zero.
double line_height(const Moments& before, const Moments& after) {
  const double weight = before.weight + after.weight;
  const double distance = after.distance - before.distance;
  const double square = before.square + after.square;
  const double value = before.value + after.value;
  const double product = after.product - before.product;
  const double determinant = weight * square - distance * distance;
  return determinant > 1e-9 * weight * square ? (square * value - distance * product) / determinant
                                              : value / weight;
}

}  // namespace

std::vector<double> smoothed(std::span<const double> values, double reach) {
  const double keep = std::exp(-1.0 / std::max(reach, 1e-9));
  std::vector<double> result = medians(values);
  std::vector<Moments> before(values.size());
  Moments sums;
  // A line may leave the values behind at their ends; the curve does not.
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums.step(keep);
    sums.add(result[i]);
    before[i] = sums;
    if (std::isfinite(result[i])) {
      least = std::min(least, result[i]);
      most = std::max(most, result[i]);
    }
  }
  Moments after;
  for (std::size_t i = values.size(); i-- > 0;) {
    after.step(keep);
    const double own = result[i];
    if (std::isfinite(own)) {
      result[i] = std::clamp(line_height(before[i], after), least, most);
    }
    after.add(own);
  }
  return result;
}

}  // namespace ravnest::plot
