#pragma once

#include <chrono>
#include <cstddef>

namespace ravnest::provider {

// How many passes the root has on their way. Enough that no stage waits for work, and no more,
// since every pass in flight makes gradients later. One more is tried where the root stood still
// for want of an answer, and stays where passes come faster by it; from time to time one fewer is
// tried, and stays where they do not come slower. Between `least` (one for each stage) and `most`,
// which bounds the delay.
class PassLimit {
 public:
  using Duration = std::chrono::nanoseconds;

  PassLimit(std::size_t least, std::size_t most);

  std::size_t value() const { return value_; }

  // The root had work to start and stood still because of the limit.
  void on_stall(Duration duration) { stalled_ += duration; }
  // A pass came back, so much time after the last one that did.
  void on_pass(Duration since_last);

 private:
  // `pace`: seconds for a pass.
  void judge(double stalled_share, double pace);
  void change_to(std::size_t value, double pace);

  const std::size_t least_;
  const std::size_t most_;
  std::size_t value_;
  std::size_t before_ = 0;  // the limit that `value_` is tried against, or 0
  double pace_before_ = 0.0;
  bool is_settling_ = true;  // the window has passes from before a change
  std::size_t passes_ = 0;   // in the window being measured
  Duration elapsed_{0};
  Duration stalled_{0};
  std::size_t waits_ = 0;     // windows before anything is tried again
  std::size_t patience_ = 4;  // the next such wait
};

}  // namespace ravnest::provider
