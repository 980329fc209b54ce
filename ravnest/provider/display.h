#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "ravnest/provider/averaging.h"
#include "ravnest/provider/provider.h"
#include "ravnest/transport/options.h"

namespace ravnest::provider {

// How much a provider says; each level says what those after it do, and more.
enum class LogLevel : std::uint8_t {
  kDebug,    // every connection, averaging and checkpoint
  kInfo,     // how it goes, whom it waits for, what came of it
  kWarning,  // what went wrong: who is lost, who was refused
  kError,    // what failed for good
  kQuiet,    // nothing
};
// "debug" to "error". Throws std::invalid_argument.
LogLevel parse_log_level(const std::string& name);

struct DisplayOptions {
  std::string name;  // "node_0"
  std::string role;
  LogLevel level = LogLevel::kInfo;
  bool is_terminal = false;
};

// What a provider says while it works: one line that changes in place on a terminal, and seldom a
// line otherwise. Every call gives what is to be written now, often nothing. It has no clock, no
// thread and no lock: whoever writes has them.
class Display {
 public:
  using TimePoint = transport::TimePoint;

  explicit Display(DisplayOptions options) : options_(std::move(options)) {}

  // Of the training to come, which others may have been before; 0 where they are not known.
  void expect(std::int64_t epochs, std::int64_t batches_per_epoch);

  // Time for tick(): asking for a status costs something.
  bool is_due(TimePoint now) const;
  std::string tick(const Provider::Status& status, TimePoint now);
  // Something happened between this provider and another.
  std::string notice(const transport::Notice& notice, TimePoint now);
  std::string averaged(const AveragingNews& news);
  std::string kept(const KeptCheckpoint& checkpoint);
  std::string saved(const std::filesystem::path& file, std::int64_t passes);
  // How a training came out.
  std::string summary(const Provider::Status& status);
  // A line that stays, if this level is shown.
  std::string say(LogLevel level, const std::string& text);
  // Takes away the line in place.
  std::string clear();

  // The line itself, without memory of what was shown.
  std::string progress(const Provider::Status& status, TimePoint now) const;

 private:
  struct Wait {
    TimePoint since;
    TimePoint heard;                // the last time it was told of
    std::optional<TimePoint> said;  // and said to people
  };

  bool shows(LogLevel level) const { return options_.level <= level; }
  std::string show(const std::string& line);
  std::string wait(const transport::Notice& notice, TimePoint now);
  bool is_waiting(TimePoint now) const;
  std::optional<double> seconds_left(const Provider::Status& status, TimePoint now) const;
  std::int64_t batches_of(const Provider::Status& status) const;

  const DisplayOptions options_;
  std::int64_t epochs_ = 0;
  std::int64_t batches_ = 0;
  bool is_line_open_ = false;
  std::optional<TimePoint> shown_;
  // When the first passes were seen, and how many those were.
  std::optional<std::pair<TimePoint, std::int64_t>> first_;
  std::string averaging_;
  std::map<std::string, Wait> waits_;  // by peer
};

}  // namespace ravnest::provider
