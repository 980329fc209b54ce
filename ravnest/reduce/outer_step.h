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
// (DiLoCo) the way from the last such values, the base, to the mean is a gradient. Equal means give
// equal results on all members, to the last bit, since all have the same base and momentum.
class OuterStep {
 public:
  explicit OuterStep(OuterOptions options) : options_(options) {}

  // Replaces the mean by the values to go on from. The first one only sets the base.
  void apply(std::span<float> mean);

  bool needs_base() const { return options_.is_nesterov; }
  bool has_base() const { return !base_.empty(); }
  const std::vector<float>& base() const { return base_; }
  const std::vector<float>& momentum() const { return momentum_; }
  void set(std::vector<float> base, std::vector<float> momentum);

 private:
  const OuterOptions options_;
  std::vector<float> base_;
  std::vector<float> momentum_;
};

}  // namespace ravnest::reduce
