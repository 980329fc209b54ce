#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ravnest {

// How to write for whoever reads standard output.
struct Style {
  bool colour = false;      // a terminal, and NO_COLOR is not set
  bool unicode = false;     // the locale can show bars and ellipses
  std::size_t width = 100;  // of a terminal, its own
};

Style detect_style();

enum class Align : std::uint8_t { kLeft, kRight };
enum class Paint : std::uint8_t { kPlain, kBold, kDim, kBar };

std::string painted(std::string_view text, Paint paint, const Style& style);

struct Column {
  Align align = Align::kLeft;
  Paint paint = Paint::kPlain;
};

// Rows of cells under columns as wide as their widest cell. Where the rows do
// not fit the style's width, the first column gives way: its cells lose their
// middle. Cells are shown without control characters, so that names from a file
// cannot drive the terminal.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty.
  void add_row(std::vector<std::string> cells);
  void add_header(std::vector<std::string> cells);

  std::string to_string(const Style& style) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool is_header = false;
  };

  std::vector<std::size_t> widths(const Style& style) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// Without control characters, and what is not UTF-8 replaced.
std::string printable(std::string_view text);
// At most `width` columns: the middle gives way to an ellipsis.
std::string shortened(std::string_view text, std::size_t width, const Style& style);
// `share` (0 to 1) of `width` columns, filled.
std::string bar(double share, std::size_t width, const Style& style);

// 44695848 → "44.7 MB"; decimal, three digits.
std::string format_bytes(std::int64_t nbytes);
// 1814073344 → "1.81 G".
std::string format_count(std::int64_t count);
// 1814073344 → "1.81 GFLOP".
std::string format_flops(std::int64_t flops);
// 0.0123 → "12.3 ms"; three digits.
std::string format_seconds(double seconds);
// 1234.5 → "1,235"; 12.34 → "12.3"; 0.1234 → "0.123".
std::string format_number(double number);
// 12.345 with 2 digits → "12.35".
std::string format_fixed(double number, int digits);
// 0.123 → "12 %".
std::string format_percent(double share);
// 11173962 → "11,173,962".
std::string format_grouped(std::int64_t count);

}  // namespace ravnest
