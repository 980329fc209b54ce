#include "ravnest/cli/churn.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"

namespace ravnest::cli {

namespace {

template <typename Number>
std::optional<Number> find_number(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && value >= 0 ? std::optional(value) : std::nullopt;
}

[[noreturn]] void refuse(std::string_view part) {
  throw_invalid("[simulate] expected absences such as '2@60-120', '2@60' or '3600/300', got '",
                printable(part), "'.");
}

planner::Absence parse_absence(std::string_view part, std::size_t at) {
  planner::Absence absence;
  const std::size_t dash = part.find('-', at);
  const auto machine = find_number<std::int64_t>(part.substr(0, at));
  const auto from = find_number<double>(part.substr(at + 1, dash - at - 1));
  const auto to = dash == std::string_view::npos ? std::optional(absence.to)
                                                 : find_number<double>(part.substr(dash + 1));
  if (!machine || !from || !to || *to <= *from) {
    refuse(part);
  }
  absence.machine = *machine;
  absence.from = *from;
  absence.to = *to;
  return absence;
}

}  // namespace

planner::Churn parse_churn(const std::string& text) {
  planner::Churn churn;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (const std::size_t at = part.find('@'); at != std::string_view::npos) {
      churn.absences.push_back(parse_absence(part, at));
      continue;
    }
    const std::size_t slash = part.find('/');
    const auto present = find_number<double>(part.substr(0, slash));
    const auto away = slash == std::string_view::npos ? std::nullopt
                                                      : find_number<double>(part.substr(slash + 1));
    if (!present || !away || *present <= 0 || *away <= 0) {
      refuse(part);
    }
    churn.mean_present_seconds = *present;
    churn.mean_away_seconds = *away;
  }
  return churn;
}

}  // namespace ravnest::cli
