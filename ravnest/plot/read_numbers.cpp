#include <charconv>
#include <string_view>

#include "ravnest/base/bytes.h"
#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/plot/plot.h"

namespace ravnest::plot {

namespace {

constexpr std::string_view kBlank = " \t\r\f\v";
constexpr std::size_t kMostShown = 40;

std::string_view trimmed(std::string_view line) {
  const std::size_t first = line.find_first_not_of(kBlank);
  return first == std::string_view::npos
             ? std::string_view()
             : line.substr(first, line.find_last_not_of(kBlank) - first + 1);
}

double parse_number(std::string_view text, const std::filesystem::path& path, std::size_t line) {
  double value = 0.0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) {
    throw_invalid("[plot] '", path.string(), "': expected a number in line ", line, ", got '",
                  printable(text.substr(0, kMostShown)), text.size() > kMostShown ? "…" : "", "'.");
  }
  return value;
}

}  // namespace

std::vector<double> read_numbers(const std::filesystem::path& path) {
  const Bytes bytes = Bytes::map_file(path);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<double> numbers;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = rest.find('\n');
    if (const std::string_view text = trimmed(rest.substr(0, end)); !text.empty()) {
      numbers.push_back(parse_number(text, path, line));
    }
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  if (numbers.empty()) {
    throw_invalid("[plot] '", path.string(), "' has no numbers: expected one a line.");
  }
  return numbers;
}

}  // namespace ravnest::plot
