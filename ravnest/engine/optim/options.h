#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ravnest::engine {

// Options of an optimizer or scheduler, by the names that torch.optim uses: flags,
// numbers (whole ones too), words ("cos") and lists of numbers (betas, milestones).
using OptionValue = std::variant<bool, double, std::string, std::vector<double>>;
using OptionMap = std::map<std::string, OptionValue>;

namespace optim {

// What a number may be; `below` leaves out the upper end, `above` the lower one.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above = false;
  bool below = false;
};

inline constexpr Range kAny = {};
inline constexpr Range kNotNegative = {.least = 0.0};
inline constexpr Range kPositive = {.least = 0.0, .above = true};
inline constexpr Range kFraction = {.least = 0.0, .most = 1.0};
inline constexpr Range kBelowOne = {.least = 0.0, .most = 1.0, .below = true};

// Reads options one by one; every read names an option that exists, and finish()
// refuses those nobody read. All errors are std::invalid_argument with a sentence that
// names the option. Borrows `options`.
class OptionReader {
 public:
  OptionReader(std::string_view owner, const OptionMap& options);

  bool flag(const std::string& name, bool otherwise);
  double number(const std::string& name, double otherwise, Range range);
  double needed_number(const std::string& name, Range range);
  std::pair<double, double> pair(const std::string& name, std::pair<double, double> otherwise,
                                 Range range);
  std::string word(const std::string& name, const std::string& otherwise,
                   const std::vector<std::string>& known);
  std::optional<std::int64_t> find_whole(const std::string& name, std::int64_t least);
  std::int64_t whole(const std::string& name, std::int64_t otherwise, std::int64_t least);
  std::int64_t needed_whole(const std::string& name, std::int64_t least);
  std::vector<std::int64_t> needed_wholes(const std::string& name, std::int64_t least);

  void finish() const;

 private:
  const OptionValue* find(const std::string& name);
  const OptionValue& needed(const std::string& name);
  double as_number(const std::string& name, const OptionValue& value, Range range) const;
  std::int64_t as_whole(const std::string& name, const OptionValue& value,
                        std::int64_t least) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& expected,
                           const OptionValue& got) const;

  std::string owner_;
  const OptionMap& options_;
  std::vector<std::string> read_;  // in the order of reading, for messages
};

std::string join(const std::vector<std::string>& names);
std::string lower_case(std::string_view text);

}  // namespace optim

}  // namespace ravnest::engine
