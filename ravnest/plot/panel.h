#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ravnest/plot/canvas.h"
#include "ravnest/plot/series.h"

namespace ravnest::plot {

inline constexpr std::uint32_t kInk = 0x1f2733;
inline constexpr std::uint32_t kGrey = 0x667085;
inline constexpr std::uint32_t kWarning = 0xb3261e;

// What a panel says beside its curve.
struct PanelText {
  std::string heading;  // what is measured: "Loss"
  std::string facts;    // beside the heading
  std::string x_label;
  std::string unit;  // after the numbers of the vertical axis
};

// One curve's part of the picture, over values numbered from 1: axes with round ticks,
// heading, lines. `box` is the part where the curve is.
class Panel {
 public:
  Panel(Canvas& canvas, const Box& box, std::size_t values, const Range& range);

  void draw_frame(const PanelText& text);
  void draw_line(std::span<const double> values, Colour colour, double width);
  void draw_area(std::span<const double> values, Colour colour);
  void draw_dot(std::size_t index, double value, Colour colour, double radius);
  // Where values are not finite.
  void draw_gaps(std::span<const double> values);
  // Beside the curve's last value.
  void draw_end(double value, const std::string& text, Colour colour);
  // Lines that say what the colours are, from the right end of the heading's row.
  void draw_key(const std::string& text, Colour colour, double width);

 private:
  Point place(double index, double value) const;

  Canvas& canvas_;
  Box box_;
  std::size_t values_;
  Range x_;
  Range y_;
  double key_end_;
};

}  // namespace ravnest::plot
