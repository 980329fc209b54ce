#include "ravnest/provider/pass_limit.h"

#include <algorithm>

namespace ravnest::provider {

namespace {

constexpr std::size_t kWindowsOfLimit = 2;  // a window is so many times the limit, in passes
constexpr double kStalled = 0.05;           // of the time: more would help
constexpr double kCalm = 0.01;              // of the time: fewer might do
constexpr std::size_t kLongestPatience = 512;

}  // namespace

PassLimit::PassLimit(std::size_t least, std::size_t expected, std::size_t most)
    : least_(std::max<std::size_t>(least, 1)),
      most_(std::max(most, least_)),
      value_(std::clamp(expected, least_, most_)) {}

void PassLimit::on_pass(Duration since_last) {
  elapsed_ += since_last;
  if (++passes_ < kWindowsOfLimit * value_) {
    return;
  }
  const double share = elapsed_.count() > 0 ? static_cast<double>(stalled_.count()) /
                                                  static_cast<double>(elapsed_.count())
                                            : 0.0;
  passes_ = 0;
  elapsed_ = stalled_ = Duration(0);
  judge(share);
}

void PassLimit::judge(double stalled_share) {
  if (stalled_share > kStalled) {
    calm_ = 0;
    if (is_trying_fewer_) {  // they did not do: leave it for longer
      patience_ = std::min(2 * patience_, kLongestPatience);
      is_trying_fewer_ = false;
    }
    value_ = std::min(value_ + 1, most_);
    return;
  }
  calm_ = stalled_share < kCalm ? calm_ + 1 : 0;
  if (calm_ >= patience_ && value_ > least_) {
    calm_ = 0;
    is_trying_fewer_ = true;
    --value_;
  }
}

}  // namespace ravnest::provider
