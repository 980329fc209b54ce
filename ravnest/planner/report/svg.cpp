#include "ravnest/planner/report/svg.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"

namespace ravnest::planner {

namespace {

// With one decimal, whatever the locale.
std::string number(double value) {
  std::array<char, 32> text{};
  const double rounded = std::isfinite(value) ? std::round(value * 10) / 10 : 0.0;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), rounded);
  RAVNEST_CHECK(error == std::errc());
  return {text.data(), end};
}

std::string attribute(std::string_view name, double value) {
  return concat(" ", name, "=\"", number(value), "\"");
}

std::string attribute(std::string_view name, std::string_view value) {
  return concat(" ", name, "=\"", value, "\"");
}

// Sequences of UTF-8's form that are no character of XML: overlong ones, surrogates, what
// is beyond Unicode, and the two that are never characters. Gives the bytes taken.
std::size_t refused_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  switch (byte(0)) {
    case 0xe0:
      return byte(1) < 0xa0 ? 3 : 0;
    case 0xed:
      return byte(1) >= 0xa0 ? 3 : 0;
    case 0xef:
      return byte(1) == 0xbf && byte(2) >= 0xbe ? 3 : 0;
    case 0xf0:
      return byte(1) < 0x90 ? 4 : 0;
    case 0xf4:
      return byte(1) >= 0x90 ? 4 : 0;
    default:
      return 0;
  }
}

std::string escaped(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {c};
  }
}

using Colour = std::array<double, 3>;

// Of full saturation where `light` is a half; darker and lighter to both sides.
Colour from_hue(double hue, double light) {
  const double chroma = 0.62 * std::min(light, 1 - light);
  const auto channel = [&](double offset) {
    const double k = std::fmod(offset + hue / 30.0, 12.0);
    return light - chroma * std::clamp(std::min(k - 3, 9 - k), -1.0, 1.0);
  };
  return {channel(0), channel(8), channel(4)};
}

// As the eye sees it (WCAG's relative luminance).
double luminance(const Colour& colour) {
  constexpr Colour kWeights = {0.2126, 0.7152, 0.0722};
  double sum = 0.0;
  for (std::size_t i = 0; i < colour.size(); ++i) {
    sum += kWeights[i] * std::pow((colour[i] + 0.055) / 1.055, 2.4);
  }
  return sum;
}

}  // namespace

std::string distinct_colour(std::size_t index) {
  const double hue = 30.0 + 290.0 * std::fmod(0.45 + static_cast<double>(index) * 0.618034, 1.0);
  const double wanted = index % 2 == 0 ? 0.18 : 0.10;
  double low = 0.0;
  double high = 1.0;
  for (int step = 0; step < 12; ++step) {
    const double middle = (low + high) / 2;
    (luminance(from_hue(hue, middle)) < wanted ? low : high) = middle;
  }
  std::string text = "#";
  for (const double channel : from_hue(hue, low)) {
    std::array<char, 4> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x",
                  static_cast<unsigned>(std::lround(255 * channel)) & 255U);
    text += digits.data();
  }
  return text;
}

std::string xml_text(std::string_view text) {
  const std::string plain = printable(text);
  std::string out;
  for (std::size_t at = 0; at < plain.size(); ++at) {
    if (const std::size_t taken = refused_at(plain, at); taken > 0) {
      out += '?';  // as printable() does
      at += taken - 1;
    } else {
      out += escaped(plain[at]);
    }
  }
  return out;
}

void Svg::begin_group(std::string_view title) {
  body_ += concat("<g><title>", xml_text(title), "</title>\n");
}

void Svg::end_group() { body_ += "</g>\n"; }

void Svg::rect(const Box& box, const Shape& shape) {
  body_ += "<rect" + attribute("x", box.x) + attribute("y", box.y) + attribute("width", box.width) +
           attribute("height", box.height) + attribute("fill", shape.fill);
  if (shape.stroke != "none") {
    body_ += attribute("stroke", shape.stroke) + attribute("stroke-width", shape.line);
  }
  if (shape.radius > 0) {
    body_ += attribute("rx", shape.radius);
  }
  body_ += "/>\n";
}

void Svg::arrow(Point from, Point to, std::string_view colour, double line) {
  constexpr double kHead = 7.0;
  const double length = std::max(std::hypot(to.x - from.x, to.y - from.y), 1.0);
  const Point along{(to.x - from.x) / length, (to.y - from.y) / length};
  const Point neck{to.x - along.x * kHead, to.y - along.y * kHead};
  const auto corner = [&](double side) {
    return concat(number(neck.x - along.y * side), ",", number(neck.y + along.x * side));
  };
  body_ += "<line" + attribute("x1", from.x) + attribute("y1", from.y) + attribute("x2", neck.x) +
           attribute("y2", neck.y) + attribute("stroke", colour) + attribute("stroke-width", line) +
           "/>\n";
  body_ += concat("<polygon points=\"", number(to.x), ",", number(to.y), " ", corner(kHead / 2),
                  " ", corner(-kHead / 2), "\" fill=\"", colour, "\"/>\n");
}

void Svg::text(Point at, std::string_view text, const Lettering& lettering) {
  constexpr std::array<std::string_view, 3> kAnchors = {"start", "middle", "end"};
  body_ += "<text" + attribute("x", at.x) + attribute("y", at.y) +
           attribute("font-size", lettering.size) + attribute("fill", lettering.fill);
  if (lettering.anchor != Anchor::kStart) {
    body_ += attribute("text-anchor", kAnchors[static_cast<std::size_t>(lettering.anchor)]);
  }
  if (lettering.bold) {
    body_ += attribute("font-weight", "bold");
  }
  if (lettering.fixed_width) {
    body_ += attribute("font-family", "DejaVu Sans Mono, Menlo, Consolas, monospace");
  }
  body_ += concat(">", xml_text(text), "</text>\n");
}

std::string Svg::finish(double width, double height, std::string_view title,
                        std::string_view background) const {
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\"", attribute("width", width),
                attribute("height", height), " viewBox=\"0 0 ", number(width), " ", number(height),
                "\" role=\"img\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\">\n",
                "<title>", xml_text(title), "</title>\n<rect", attribute("width", width),
                attribute("height", height), attribute("fill", background), " rx=\"8\"/>\n", body_,
                "</svg>\n");
}

}  // namespace ravnest::planner
