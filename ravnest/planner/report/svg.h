#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ravnest::planner {

// The colours of all our pictures.
inline constexpr std::string_view kBackground = "#f4f6f9";
inline constexpr std::string_view kInk = "#1f2733";
inline constexpr std::string_view kDim = "#5b6778";
inline constexpr std::string_view kRule = "#c5ccd6";

struct Point {
  double x = 0.0;
  double y = 0.0;
};

struct Box {
  double x = 0.0;
  double y = 0.0;
  double width = 0.0;
  double height = 0.0;
};

struct Shape {
  std::string_view fill = "none";
  std::string_view stroke = "none";
  double line = 1.0;
  double radius = 0.0;  // of the corners
};

enum class Anchor : std::uint8_t { kStart, kMiddle, kEnd };

struct Lettering {
  double size = 12.0;
  std::string_view fill = kInk;
  Anchor anchor = Anchor::kStart;
  bool bold = false;
  bool fixed_width = false;
};

// Draws an SVG file that stands alone: no scripts, links, fonts or style sheets. Text from
// outside is escaped, and what XML does not take is replaced.
class Svg {
 public:
  // What is drawn until end_group() shows this text under the pointer.
  void begin_group(std::string_view title);
  void end_group();

  void rect(const Box& box, const Shape& shape);
  void arrow(Point from, Point to, std::string_view colour, double line);
  void text(Point at, std::string_view text, const Lettering& lettering);

  std::string finish(double width, double height, std::string_view title,
                     std::string_view background) const;

 private:
  std::string body_;
};

// The colours of a row of things, "#rrggbb". Hues a golden section apart never meet, however
// many there are; red is left out for warnings. Every second is darker, and white digits can
// be read on all.
std::string distinct_colour(std::size_t index);

// `text` for XML: printable, escaped, valid UTF-8.
std::string xml_text(std::string_view text);

}  // namespace ravnest::planner
