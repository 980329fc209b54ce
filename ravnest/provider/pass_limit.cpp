#include "ravnest/provider/pass_limit.h"

#include <algorithm>
#include <utility>

namespace ravnest::provider {

namespace {

constexpr std::size_t kWindowsOfLimit = 2;  // a window is so many times the limit, in passes
constexpr double kStalled = 0.05;           // of the time: more may help
constexpr double kFaster = 0.95;            // of the pace before: it did
constexpr double kSlower = 1.05;            // of the pace before: fewer do not do
constexpr std::size_t kLongestPatience = 256;

}  // namespace

PassLimit::PassLimit(std::size_t least, std::size_t most)
    : least_(std::max<std::size_t>(least, 1)), most_(std::max(most, least_)), value_(least_) {}

void PassLimit::on_pass(Duration since_last) {
  elapsed_ += since_last;
  if (++passes_ < kWindowsOfLimit * value_) {
    return;
  }
  const std::chrono::duration<double> elapsed = elapsed_;
  const std::chrono::duration<double> stalled = stalled_;
  const double share = elapsed.count() > 0.0 ? stalled.count() / elapsed.count() : 0.0;
  const double pace = elapsed.count() / static_cast<double>(passes_);
  passes_ = 0;
  elapsed_ = stalled_ = Duration(0);
  if (!std::exchange(is_settling_, false)) {
    judge(share, pace);
  }
}

void PassLimit::judge(double stalled_share, double pace) {
  if (before_ != 0) {
    const std::size_t before = std::exchange(before_, 0);
    const bool is_worth_it = value_ > before ? pace < kFaster * pace_before_  // came faster
                                             : pace < kSlower * pace_before_;
    if (!is_worth_it) {
      waits_ = patience_;
      patience_ = std::min(2 * patience_, kLongestPatience);
      value_ = before;
      is_settling_ = true;
      return;
    }
  }
  if (waits_ > 0) {
    --waits_;
    return;
  }
  if (stalled_share > kStalled && value_ < most_) {
    change_to(value_ + 1, pace);
  } else if (stalled_share <= kStalled && value_ > least_) {
    waits_ = patience_;
    change_to(value_ - 1, pace);
  }
}

void PassLimit::change_to(std::size_t value, double pace) {
  before_ = std::exchange(value_, value);
  pace_before_ = pace;
  is_settling_ = true;
}

}  // namespace ravnest::provider
