#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace ravnest::plot {

struct Point {
  double x = 0.0;
  double y = 0.0;
};

struct Box {
  double x = 0.0;
  double y = 0.0;
  double width = 0.0;
  double height = 0.0;

  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

struct Colour {
  std::uint32_t rgb = 0;  // 0xrrggbb
  double alpha = 1.0;
};

enum class Anchor : std::uint8_t { kStart, kMiddle, kEnd };

struct Lettering {
  double size = 13.0;
  Colour colour;
  Anchor anchor = Anchor::kStart;
  bool bold = false;
};

enum class PictureFormat : std::uint8_t { kPng, kSvg };

// The format that a file's name asks for; throws std::invalid_argument for another.
PictureFormat format_of(const std::filesystem::path& path);

// Draws with cairo. Lengths are in points, y grows downwards, and text stands on its point.
// Text becomes shapes, so that an SVG needs no font.
class Canvas {
 public:
  Canvas(double width, double height, PictureFormat format);
  ~Canvas();
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  void fill(const Box& box, Colour colour);
  void line(std::span<const Point> points, Colour colour, double width);
  // Fills what is between the points and a horizontal line.
  void area(std::span<const Point> points, double base, Colour colour);
  void dot(Point centre, double radius, Colour colour);
  // Gives the width.
  double text(Point at, const std::string& text, const Lettering& lettering);

  // What is drawn until end_clip() shows inside of the box alone.
  void begin_clip(const Box& box);
  void end_clip();

  // The finished file; nothing can be drawn afterwards.
  std::string finish();

 private:
  struct State;
  void set(Colour colour);

  std::unique_ptr<State> state_;
};

}  // namespace ravnest::plot
