#include "ravnest/base/table.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iomanip>
#include <sstream>

namespace ravnest {

namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 8;
constexpr std::size_t kNarrowestPage = 60;
constexpr std::size_t kWidestPage = 140;

// The length of the UTF-8 sequence at the front of `text`; 0 where it is none.
std::size_t sequence_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0x80                     ? 1
                             : first >= 0xC2 && first <= 0xDF ? 2
                             : first >= 0xE0 && first <= 0xEF ? 3
                             : first >= 0xF0 && first <= 0xF4 ? 4
                                                              : 0;
  if (length > text.size()) {
    return 0;
  }
  const bool continues =
      std::ranges::all_of(text.substr(1, length > 0 ? length - 1 : 0),
                          [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; });
  return continues ? length : 0;
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return !is_continuation(c); }));
}

// The byte where column `column` begins.
std::size_t byte_of_column(std::string_view text, std::size_t column) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!is_continuation(text[at]) && column-- == 0) {
      return at;
    }
  }
  return at;
}

std::string three_digits(double value) {
  std::array<char, 32> text{};
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string scaled(std::int64_t number, std::string_view unit) {
  constexpr std::array<std::string_view, 7> kPrefixes = {"", "k", "M", "G", "T", "P", "E"};
  auto value = static_cast<double>(number);
  std::size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  std::string text = prefix == 0 ? std::to_string(number) : three_digits(value);
  if (prefix > 0 || !unit.empty()) {
    text += ' ';
  }
  return text.append(kPrefixes[prefix]).append(unit);
}

}  // namespace

Style detect_style() {
  std::setlocale(LC_CTYPE, "");
  Style style;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  style.colour = isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') &&
                 term != nullptr && std::string_view(term) != "dumb";
  style.unicode = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = std::clamp<std::size_t>(size.ws_col, kNarrowestPage, kWidestPage);
  }
  return style;
}

std::string painted(std::string_view text, Paint paint, const Style& style) {
  constexpr std::array<std::string_view, 4> kCodes = {"", "\x1b[1m", "\x1b[2m", "\x1b[36m"};
  const std::string_view code = kCodes[static_cast<std::size_t>(paint)];
  if (!style.colour || code.empty() || text.empty()) {
    return std::string(text);
  }
  return std::string(code).append(text).append("\x1b[0m");
}

void Table::add_row(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    cell = printable(cell);
  }
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), false});
}

void Table::add_header(std::vector<std::string> cells) {
  add_row(std::move(cells));
  rows_.back().is_header = true;
}

std::vector<std::size_t> Table::widths(const Style& style) const {
  std::vector<std::size_t> widths(columns_.size());
  std::size_t total = kIndent;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    for (const Row& row : rows_) {
      widths[column] = std::max(widths[column], display_width(row.cells[column]));
    }
    total += widths[column] + (column > 0 ? kGap : 0);
  }
  if (total > style.width && !widths.empty()) {
    const std::size_t excess = total - style.width;
    widths[0] = std::max(kNarrowest, widths[0] > excess ? widths[0] - excess : 0);
  }
  return widths;
}

std::string Table::to_string(const Style& style) const {
  const std::vector<std::size_t> width = widths(style);
  std::string out;
  for (const Row& row : rows_) {
    std::string line;
    std::size_t blanks = kIndent;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::string cell =
          column == 0 ? shortened(row.cells[0], width[0], style) : row.cells[column];
      const std::size_t padding = width[column] - display_width(cell);
      const bool is_right = columns_[column].align == Align::kRight;
      blanks += is_right ? padding : 0;
      if (!cell.empty()) {
        line.append(blanks, ' ');
        line += painted(cell, row.is_header ? Paint::kDim : columns_[column].paint, style);
        blanks = 0;
      }
      blanks += (is_right ? 0 : padding) + kGap;
    }
    out += line.append("\n");
  }
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // C1 controls are two bytes in UTF-8, from C2 80 to C2 9F.
    const bool is_control =
        first < 0x20 || first == 0x7F ||
        (length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
    if (length == 0 || is_control) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t width, const Style& style) {
  const std::size_t have = display_width(text);
  if (have <= width) {
    return std::string(text);
  }
  const std::string_view ellipsis = style.unicode ? "…" : "..";
  const std::size_t mark = display_width(ellipsis);
  if (width <= mark) {
    return std::string(text.substr(0, byte_of_column(text, width)));
  }
  const std::size_t tail = (width - mark + 1) / 2;
  const std::size_t head = width - mark - tail;
  return std::string(text.substr(0, byte_of_column(text, head)))
      .append(ellipsis)
      .append(text.substr(byte_of_column(text, have - tail)));
}

std::string bar(double share, std::size_t width, const Style& style) {
  constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double part = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  const double columns = part * static_cast<double>(width);
  std::string out;
  if (!style.unicode) {
    return out.append(static_cast<std::size_t>(std::lround(columns)), '#');
  }
  const auto eighths = static_cast<std::size_t>(std::lround(columns * 8));
  for (std::size_t i = 0; i < eighths / 8; ++i) {
    out += "█";
  }
  return out.append(kEighths[eighths % 8]);
}

std::string format_bytes(std::int64_t nbytes) { return scaled(nbytes, "B"); }

std::string format_count(std::int64_t count) { return scaled(count, ""); }

std::string format_flops(std::int64_t flops) { return scaled(flops, "FLOP"); }

std::string format_number(double number) {
  if (number >= 999.5) {
    return format_grouped(std::llround(std::min(number, 1e15)));
  }
  std::array<char, 40> text{};
  const int decimals = number >= 99.95 ? 0 : number >= 9.995 ? 1 : number >= 0.9995 ? 2 : 3;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, number);
  return text.data();
}

std::string format_fixed(double number, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << number;
  return std::move(out).str();
}

std::string format_percent(double share) { return std::to_string(std::lround(share * 100)) + " %"; }

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) {
    return "for ever";
  }
  if (seconds >= 1.0) {
    return format_number(seconds) + " s";
  }
  return seconds >= 1e-3 ? format_number(seconds * 1e3) + " ms"
                         : format_number(seconds * 1e6) + " us";
}

std::string format_grouped(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

}  // namespace ravnest
