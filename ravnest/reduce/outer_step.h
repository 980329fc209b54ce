#pragma once

#include <cstddef>
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
  // Of so many values.
  OuterStep(OuterOptions options, std::size_t size)
      : options_(options), momentum_(options.is_nesterov ? size : 0) {}

  bool is_nesterov() const { return options_.is_nesterov; }
  // Replaces the mean by the values to go on from.
  void apply(std::span<const float> base, std::span<float> mean);
  // The same on all members that have taken the same steps; empty where there is none. Who was away
  // takes it from another with the base.
  std::span<const float> momentum() const { return momentum_; }
  void set_momentum(std::span<const float> momentum) {
    momentum_.assign(momentum.begin(), momentum.end());
  }

 private:
  const OuterOptions options_;
  std::vector<float> momentum_;
};

}  // namespace ravnest::reduce
