#include "ravnest/engine/optim/options.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "ravnest/base/error.h"

namespace ravnest::engine::optim {

namespace {

constexpr double kLargestWhole = 9007199254740992.0;  // 2^53: whole numbers are exact up to here

bool is_in(double number, Range range) {
  return (range.above ? number > range.least : number >= range.least) &&
         (range.below ? number < range.most : number <= range.most) && std::isfinite(number);
}

// " of 0 or more", " from 0 to below 1", ...
std::string to_text(Range range) {
  if (std::isinf(range.least)) {
    return "";
  }
  if (std::isinf(range.most)) {
    return range.above ? concat(" above ", range.least) : concat(" of ", range.least, " or more");
  }
  if (range.above) {
    return concat(" above ", range.least, " and up to ", range.most);
  }
  return concat(" from ", range.least, range.below ? " to below " : " to ", range.most);
}

std::string to_text(const std::vector<double>& numbers) {
  std::vector<std::string> texts;
  texts.reserve(numbers.size());
  for (const double number : numbers) {
    texts.push_back(concat(number));
  }
  return concat("[", join(texts), "]");
}

std::string to_text(const OptionValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) {
    return *flag ? "true" : "false";
  }
  if (const double* number = std::get_if<double>(&value)) {
    return concat(*number);
  }
  if (const auto* word = std::get_if<std::string>(&value)) {
    return concat("'", *word, "'");
  }
  return to_text(std::get<std::vector<double>>(value));
}

}  // namespace

OptionReader::OptionReader(std::string_view owner, const OptionMap& options)
    : owner_(owner), options_(options) {}

bool OptionReader::flag(const std::string& name, bool otherwise) {
  const OptionValue* value = find(name);
  if (value == nullptr) {
    return otherwise;
  }
  const bool* flag = std::get_if<bool>(value);
  if (flag == nullptr) {
    refuse(name, "true or false", *value);
  }
  return *flag;
}

double OptionReader::number(const std::string& name, double otherwise, Range range) {
  const OptionValue* value = find(name);
  return value == nullptr ? otherwise : as_number(name, *value, range);
}

double OptionReader::needed_number(const std::string& name, Range range) {
  return as_number(name, needed(name), range);
}

std::pair<double, double> OptionReader::pair(const std::string& name,
                                             std::pair<double, double> otherwise, Range range) {
  const OptionValue* value = find(name);
  if (value == nullptr) {
    return otherwise;
  }
  const auto* numbers = std::get_if<std::vector<double>>(value);
  const auto fits = [range](double number) { return is_in(number, range); };
  if (numbers == nullptr || numbers->size() != 2 || !std::ranges::all_of(*numbers, fits)) {
    refuse(name, "two numbers" + to_text(range), *value);
  }
  return {(*numbers)[0], (*numbers)[1]};
}

std::string OptionReader::word(const std::string& name, const std::string& otherwise,
                               const std::vector<std::string>& known) {
  const OptionValue* value = find(name);
  if (value == nullptr) {
    return otherwise;
  }
  const auto* word = std::get_if<std::string>(value);
  if (word == nullptr || std::ranges::find(known, *word) == known.end()) {
    refuse(name, "one of " + join(known), *value);
  }
  return *word;
}

std::optional<std::int64_t> OptionReader::find_whole(const std::string& name, std::int64_t least) {
  const OptionValue* value = find(name);
  return value == nullptr ? std::optional<std::int64_t>() : as_whole(name, *value, least);
}

std::int64_t OptionReader::whole(const std::string& name, std::int64_t otherwise,
                                 std::int64_t least) {
  return find_whole(name, least).value_or(otherwise);
}

std::int64_t OptionReader::needed_whole(const std::string& name, std::int64_t least) {
  return as_whole(name, needed(name), least);
}

std::vector<std::int64_t> OptionReader::needed_wholes(const std::string& name, std::int64_t least) {
  const OptionValue& value = needed(name);
  const auto* numbers = std::get_if<std::vector<double>>(&value);
  if (numbers == nullptr) {
    refuse(name, "a list of whole numbers", value);
  }
  std::vector<std::int64_t> wholes;
  for (const double number : *numbers) {
    wholes.push_back(as_whole(name, number, least));
  }
  return wholes;
}

void OptionReader::finish() const {
  for (const auto& [name, value] : options_) {
    if (std::ranges::find(read_, name) == read_.end()) {
      throw_invalid("[optim] ", owner_, " has no option '", name, "'; it has ", join(read_), ".");
    }
  }
}

const OptionValue* OptionReader::find(const std::string& name) {
  read_.push_back(name);
  const auto found = options_.find(name);
  return found == options_.end() ? nullptr : &found->second;
}

const OptionValue& OptionReader::needed(const std::string& name) {
  const OptionValue* value = find(name);
  if (value == nullptr) {
    throw_invalid("[optim] ", owner_, " needs the option ", name, ".");
  }
  return *value;
}

double OptionReader::as_number(const std::string& name, const OptionValue& value,
                               Range range) const {
  const double* number = std::get_if<double>(&value);
  if (number == nullptr || !is_in(*number, range)) {
    refuse(name, "a number" + to_text(range), value);
  }
  return *number;
}

std::int64_t OptionReader::as_whole(const std::string& name, const OptionValue& value,
                                    std::int64_t least) const {
  const double* number = std::get_if<double>(&value);
  if (number == nullptr || *number != std::floor(*number) || *number < static_cast<double>(least) ||
      *number > kLargestWhole) {
    refuse(name, concat("a whole number of ", least, " or more"), value);
  }
  return static_cast<std::int64_t>(*number);
}

void OptionReader::refuse(const std::string& name, const std::string& expected,
                          const OptionValue& got) const {
  throw_invalid("[optim] ", owner_, " expects ", name, " to be ", expected, ", got ", to_text(got),
                ".");
}

std::string join(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) {
    joined += joined.empty() ? name : ", " + name;
  }
  return joined;
}

std::string lower_case(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return lowered;
}

}  // namespace ravnest::engine::optim
