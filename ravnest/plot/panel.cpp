#include "ravnest/plot/panel.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ravnest::plot {

namespace {

constexpr Colour kPaper{0xffffff};
constexpr Colour kGrid{0xe8ebf1};
constexpr Colour kAxis{0xb9c0cc};
constexpr std::size_t kFewValues = 15;  // each of which gets a tick
constexpr std::size_t kMostTicksX = 9;
constexpr std::size_t kMostTicksY = 8;
constexpr double kHeadingRise = 13.0;  // above the box
constexpr double kEndGap = 10.0;
constexpr double kKeyLine = 22.0;

}  // namespace

Panel::Panel(Canvas& canvas, const Box& box, std::size_t values, const Range& range)
    : canvas_(canvas),
      box_(box),
      values_(values),
      x_{.low = 1.0, .high = static_cast<double>(values)},
      y_(range),
      key_end_(box.right()) {
  if (values < 2) {
    x_ = {.low = 0.0, .high = 2.0};
  } else if (values > kFewValues) {
    x_.low = 0.0;  // rounder than 1, and as good
  }
}

// `index` counts from 0, as lists do; the axis from 1.
Point Panel::place(double index, double value) const {
  // A spike beyond the box must not be beyond what cairo can count either.
  const double height = std::clamp((value - y_.low) / y_.span(), -10.0, 10.0);
  return {.x = box_.x + box_.width * (index + 1 - x_.low) / x_.span(),
          .y = box_.bottom() - box_.height * height};
}

void Panel::draw_frame(const PanelText& text) {
  canvas_.fill(box_, kPaper);
  const std::vector<double> ticks = round_ticks(y_, kMostTicksY);
  const std::vector<std::string> texts = tick_texts(ticks);
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const double y = place(0, ticks[i]).y;
    canvas_.line(std::array{Point{box_.x, y}, Point{box_.right(), y}}, kGrid, 1.0);
    canvas_.text({box_.x - 10, y + 4.5}, texts[i] + text.unit,
                 {.size = 12, .colour = {kGrey}, .anchor = Anchor::kEnd});
  }
  canvas_.line(std::array{Point{box_.x, box_.bottom()}, Point{box_.right(), box_.bottom()}}, kAxis,
               1.2);
  const bool are_few = values_ <= kFewValues;
  std::vector<double> places = round_ticks(x_, are_few ? kFewValues : kMostTicksX);
  std::erase_if(places, [&](double at) {
    return at != std::round(at) || (are_few && at < 1) || at > static_cast<double>(values_);
  });
  const std::vector<std::string> numbers = tick_texts(places);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const double x = place(places[i] - 1, y_.low).x;
    canvas_.line(std::array{Point{x, box_.bottom()}, Point{x, box_.bottom() + 5}}, kAxis, 1.2);
    canvas_.text({x, box_.bottom() + 20}, numbers[i],
                 {.size = 12, .colour = {kGrey}, .anchor = Anchor::kMiddle});
  }
  canvas_.text({box_.x + box_.width / 2, box_.bottom() + 40}, text.x_label,
               {.size = 12.5, .colour = {kGrey}, .anchor = Anchor::kMiddle});
  const double y = box_.y - kHeadingRise;
  const double width =
      canvas_.text({box_.x, y}, text.heading, {.size = 15, .colour = {kInk}, .bold = true});
  canvas_.text({box_.x + width + 14, y}, text.facts, {.size = 13, .colour = {kGrey}});
}

void Panel::draw_line(std::span<const double> values, Colour colour, double width) {
  // The curve's own ends may stand on the border.
  canvas_.begin_clip({box_.x - 2, box_.y - 2, box_.width + 4, box_.height + 4});
  for (const auto& line : lines_of(values, static_cast<std::size_t>(box_.width))) {
    std::vector<Point> points;
    for (const Sample& sample : line) {
      points.push_back(place(sample.at, sample.value));
    }
    if (points.size() == 1) {
      canvas_.dot(points[0], width, colour);
    }
    canvas_.line(points, colour, width);
  }
  canvas_.end_clip();
}

void Panel::draw_area(std::span<const double> values, Colour colour) {
  canvas_.begin_clip(box_);
  for (const auto& line : lines_of(values, static_cast<std::size_t>(box_.width))) {
    std::vector<Point> points;
    for (const Sample& sample : line) {
      points.push_back(place(sample.at, sample.value));
    }
    canvas_.area(points, box_.bottom(), colour);
  }
  canvas_.end_clip();
}

void Panel::draw_dot(std::size_t index, double value, Colour colour, double radius) {
  const Point at = place(static_cast<double>(index), value);
  canvas_.dot(at, radius + 1.5, kPaper);
  canvas_.dot(at, radius, colour);
}

void Panel::draw_gaps(std::span<const double> values) {
  double before = -1.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = place(static_cast<double>(i), y_.low).x;
    if (!std::isfinite(values[i]) && x >= before + 1.0) {
      canvas_.line(std::array{Point{x, box_.bottom() - 9}, Point{x, box_.bottom() - 2}},
                   {kWarning, 0.8}, 1.6);
      before = x;
    }
  }
}

void Panel::draw_end(double value, const std::string& text, Colour colour) {
  const Point end = place(static_cast<double>(values_) - 1, value);
  canvas_.text({box_.right() + kEndGap, std::clamp(end.y, box_.y, box_.bottom()) + 4.5}, text,
               {.size = 13, .colour = colour, .bold = true});
}

void Panel::draw_key(const std::string& text, Colour colour, double width) {
  const double y = box_.y - kHeadingRise;
  const double length =
      canvas_.text({key_end_, y}, text, {.size = 12, .colour = {kGrey}, .anchor = Anchor::kEnd});
  const double end = key_end_ - length - 8;
  canvas_.line(std::array{Point{end - kKeyLine, y - 4}, Point{end, y - 4}}, colour, width);
  key_end_ = end - kKeyLine - 18;
}

}  // namespace ravnest::plot
