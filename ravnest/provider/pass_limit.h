#pragma once

#include <chrono>
#include <cstddef>

namespace ravnest::provider {

// How many passes the root has on their way. Enough that no stage waits for work, and no more,
// since every pass in flight makes gradients later: raised where the root stood still for want of
// an answer, lowered again from time to time to see whether fewer do. Between `least` (one for each
// stage) and `most`, which bounds the delay; at first what the plan `expected`.
class PassLimit {
 public:
  using Duration = std::chrono::nanoseconds;

  PassLimit(std::size_t least, std::size_t expected, std::size_t most);

  std::size_t value() const { return value_; }

  // The root had work to start and stood still because of the limit.
  void on_stall(Duration duration) { stalled_ += duration; }
  // A pass came back, so much time after the last one that did.
  void on_pass(Duration since_last);

 private:
  void judge(double stalled_share);

  const std::size_t least_;
  const std::size_t most_;
  std::size_t value_;
  std::size_t passes_ = 0;  // in the window being measured
  Duration elapsed_{0};
  Duration stalled_{0};
  std::size_t calm_ = 0;      // windows without a stall
  std::size_t patience_ = 8;  // calm windows before fewer are tried
  bool is_trying_fewer_ = false;
};

}  // namespace ravnest::provider
