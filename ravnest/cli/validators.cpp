#include "ravnest/cli/validators.h"

#include <algorithm>
#include <charconv>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"

namespace ravnest::cli {

namespace {

template <typename Number>
bool parse(const std::string& text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    std::int64_t value = 0;
    return parse(text, value) && value >= least && value <= most
               ? std::string()
               : concat("expected a whole number from ", least, " to ", most, ", got '",
                        printable(text), "'");
  };
  return CLI::Validator(check, "");
}

CLI::Validator number_above(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    double value = 0.0;
    return parse(text, value) && value > least && value <= most
               ? std::string()
               : concat("expected a number above ", least, " and up to ", most, ", got '",
                        printable(text), "'");
  };
  return CLI::Validator(check, "");
}

CLI::Validator number_from(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    double value = 0.0;
    return parse(text, value) && value >= least && value <= most
               ? std::string()
               : concat("expected a number from ", least, " to ", most, ", got '", printable(text),
                        "'");
  };
  return CLI::Validator(check, "");
}

CLI::Validator one_of(std::initializer_list<const char*> words) {
  const auto check = [words = std::vector<std::string>(words.begin(), words.end())](
                         const std::string& text) -> std::string {
    if (std::ranges::find(words, text) != words.end()) {
      return {};
    }
    std::string list;
    for (std::size_t i = 0; i < words.size(); ++i) {
      list += concat(i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
    }
    return concat("expected ", list, ", got '", printable(text), "'");
  };
  return CLI::Validator(check, "");
}

}  // namespace ravnest::cli
