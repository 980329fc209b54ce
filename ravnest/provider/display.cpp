#include "ravnest/provider/display.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/resident_bytes.h"
#include "ravnest/base/table.h"

namespace ravnest::provider {

namespace {

using std::chrono::milliseconds;
using transport::NoticeKind;

constexpr milliseconds kInPlace{250};    // between two changes of the line in place
constexpr milliseconds kPlain{10'000};   // between two lines where there is no terminal
constexpr milliseconds kPatience{2000};  // before a wait is worth a line
constexpr milliseconds kSilence{1500};   // after which a wait that is told every second is over

// The line in place is cut at the terminal's edge: one that wrapped could not be taken back.
constexpr const char* kErase = "\r\033[K";
constexpr const char* kNoWrap = "\033[?7l";
constexpr const char* kWrap = "\033[?7h";

std::string format_loss(double loss) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.4g", loss);
  return text.data();
}

std::string format_duration(double seconds) {
  const auto whole = std::llround(seconds);
  const auto two_digits = [](long long number) { return concat(number < 10 ? "0" : "", number); };
  if (whole < 60) {
    return concat(whole, " s");
  }
  if (whole < 3600) {
    return concat(whole / 60, " min ", two_digits(whole % 60), " s");
  }
  return concat(whole / 3600, " h ", two_digits(whole / 60 % 60), " min");
}

std::string format_size(std::size_t nbytes) {
  return format_bytes(static_cast<std::int64_t>(nbytes));
}

// "3/10", or "3" where the whole is not known.
std::string of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? concat(part, "/", whole) : concat(part);
}

}  // namespace

LogLevel parse_log_level(const std::string& name) {
  constexpr std::array<const char*, 4> kNames = {"debug", "info", "warning", "error"};
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    throw_invalid("[display] expected log_level to be debug, info, warning or error, got '",
                  printable(name), "'.");
  }
  return static_cast<LogLevel>(found - kNames.begin());
}

void Display::expect(std::int64_t epochs, std::int64_t batches_per_epoch) {
  epochs_ += epochs;
  batches_ = batches_per_epoch;
}

bool Display::is_due(TimePoint now) const {
  const milliseconds pause = options_.is_terminal ? kInPlace : kPlain;
  return shows(LogLevel::kInfo) && (!shown_ || now - *shown_ >= pause);
}

std::string Display::tick(const Provider::Status& status, TimePoint now) {
  if (!is_due(now) || status.passes == status.resumed) {
    return {};
  }
  if (!first_) {
    first_ = {now, status.passes};
    if (!options_.is_terminal) {
      shown_ = now;
    }
    return {};
  }
  if (options_.is_terminal && is_waiting(now)) {
    return {};
  }
  shown_ = now;
  return show(progress(status, now));
}

std::string Display::notice(const transport::Notice& notice, TimePoint now) {
  const std::string text = printable(notice.text);
  switch (notice.kind) {
    case NoticeKind::kWaiting:
    case NoticeKind::kLost:
      return wait(notice, now);
    case NoticeKind::kOpen: {
      const auto waited = waits_.extract(notice.peer);
      const bool is_awaited = !waited.empty() && waited.mapped().said;
      return say(is_awaited ? LogLevel::kInfo : LogLevel::kDebug, text);
    }
    case NoticeKind::kNews:
      return say(LogLevel::kInfo, text);
    case NoticeKind::kRefused:
    case NoticeKind::kWarning:
      return say(LogLevel::kWarning, text);
    case NoticeKind::kFailed:
      // The failure of a channel ends the run, which says so.
      return say(notice.channel.empty() ? LogLevel::kError : LogLevel::kDebug, text);
    case NoticeKind::kClosed:
      return say(LogLevel::kDebug, text);
  }
  return {};
}

// Told again and again as long as it lasts. Who is lost is named at once, and the name stays.
std::string Display::wait(const transport::Notice& notice, TimePoint now) {
  const bool is_lost = notice.kind == NoticeKind::kLost;
  if (!shows(is_lost ? LogLevel::kWarning : LogLevel::kInfo)) {
    return {};
  }
  Wait& wait =
      waits_.try_emplace(notice.peer, Wait{.since = now, .heard = now, .said = {}}).first->second;
  wait.heard = now;
  if (!is_lost && now - wait.since < kPatience) {
    return {};
  }
  const std::string text = printable(notice.text);
  const bool is_first = !wait.said;
  if (options_.is_terminal && shows(LogLevel::kInfo) && !(is_lost && is_first)) {
    wait.said = now;
    return show(text);
  }
  if (is_first || now - *wait.said >= kPlain) {
    wait.said = now;
    return say(LogLevel::kWarning, text);
  }
  return {};
}

bool Display::is_waiting(TimePoint now) const {
  return std::ranges::any_of(waits_, [&](const auto& entry) {
    return entry.second.said && now - entry.second.heard < kSilence;
  });
}

std::string Display::averaged(const AveragingNews& news) {
  averaging_ = describe(news, options_.name);
  return say(LogLevel::kDebug, concat(options_.name, ": ", averaging_));
}

std::string Display::kept(const KeptCheckpoint& checkpoint) {
  return say(LogLevel::kDebug, concat(options_.name, ": checkpoint after ", checkpoint.passes,
                                      " batches in ", checkpoint.file.string()));
}

std::string Display::saved(const std::filesystem::path& file, std::int64_t passes) {
  return say(LogLevel::kDebug,
             concat(options_.name, ": weights after ", passes, " batches in ", file.string()));
}

std::string Display::summary(const Provider::Status& status) {
  std::string text = concat(options_.name, " (", options_.role, "): trained on ",
                            status.passes - status.resumed, " batches");
  if (status.resumed > 0) {
    text += concat(" (and ", status.resumed, " before)");
  }
  if (status.samples_per_second > 0.0) {
    const double seconds = static_cast<double>(status.samples) / status.samples_per_second;
    text += concat(" in ", format_seconds(seconds), ", ", std::llround(status.samples_per_second),
                   " samples/s");
  }
  text += concat(", last loss ", format_loss(status.loss), ", greatest delay ",
                 status.loop.max_delay, ", memory ", format_bytes(resident_bytes()));
  if (status.averagings > 0) {
    text += concat(", averaged ", status.averagings, " times (", format_size(status.averaged_bytes),
                   " sent)");
  }
  return say(LogLevel::kInfo, text);
}

std::string Display::say(LogLevel level, const std::string& text) {
  return shows(level) ? concat(clear(), text, "\n") : std::string();
}

std::string Display::clear() { return std::exchange(is_line_open_, false) ? kErase : ""; }

std::string Display::show(const std::string& line) {
  if (!options_.is_terminal) {
    return line + "\n";
  }
  is_line_open_ = true;
  return concat(kErase, kNoWrap, line, kWrap);
}

std::int64_t Display::batches_of(const Provider::Status& status) const {
  return batches_ > 0 ? batches_ : status.batches;
}

std::string Display::progress(const Provider::Status& status, TimePoint now) const {
  const std::int64_t batches = batches_of(status);
  const std::int64_t last = std::max<std::int64_t>(status.passes - 1, 0);
  const std::int64_t epoch = batches > 0 ? last / batches : std::max<std::int64_t>(status.epoch, 0);
  const std::int64_t batch = batches > 0 ? last % batches : last;
  std::string text =
      concat(options_.name, " (", options_.role, "), epoch ", of(epoch + 1, epochs_), ", batch ",
             of(batch + 1, batches), ", loss ", format_loss(status.loss), ", ",
             std::llround(status.samples_per_second), " samples/s, delay ", status.loop.delay);
  if (const auto left = seconds_left(status, now)) {
    text += concat(", ", format_duration(*left), " left");
  }
  text += concat(", ", format_bytes(resident_bytes()));
  return averaging_.empty() ? text : concat(text, ", ", averaging_);
}

std::optional<double> Display::seconds_left(const Provider::Status& status, TimePoint now) const {
  const std::int64_t whole = epochs_ * batches_of(status);
  if (whole == 0 || !first_ || status.passes <= first_->second) {
    return std::nullopt;
  }
  const double elapsed = std::chrono::duration<double>(now - first_->first).count();
  const auto remaining = static_cast<double>(std::max<std::int64_t>(whole - status.passes, 0));
  return remaining * elapsed / static_cast<double>(status.passes - first_->second);
}

}  // namespace ravnest::provider
