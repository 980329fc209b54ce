#pragma once

#include <span>
#include <vector>

namespace ravnest::reduce {

struct OuterOptions {
  bool is_nesterov = false;  // else the mean itself
  double rate = 0.7;
  double momentum = 0.9;
};

// From the mean of the members' values to what all of them go on from. With Nesterov's momentum
// (DiLoCo) the way from the base, which all went on from before, to the mean is a gradient. Equal
// bases and means give equal results on all members, to the last bit.
class OuterStep {
 public:
  explicit OuterStep(OuterOptions options) : options_(options) {}

  bool is_nesterov() const { return options_.is_nesterov; }
  // Replaces the mean by the values to go on from.
  void apply(std::span<const float> base, std::span<float> mean);
  // After values that came from elsewhere.
  void reset() { momentum_.clear(); }

 private:
  const OuterOptions options_;
  std::vector<float> momentum_;
};

}  // namespace ravnest::reduce
