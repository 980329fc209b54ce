#include "ravnest/reduce/outer_step.h"

#include <utility>

namespace ravnest::reduce {

void OuterStep::apply(std::span<float> mean) {
  if (!options_.is_nesterov) {
    return;
  }
  if (!has_base()) {
    set({mean.begin(), mean.end()}, std::vector<float>(mean.size(), 0.0F));
    return;
  }
  const auto rate = static_cast<float>(options_.rate);
  const auto keep = static_cast<float>(options_.momentum);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const float gradient = base_[i] - mean[i];
    momentum_[i] = keep * momentum_[i] + gradient;
    base_[i] -= rate * (gradient + keep * momentum_[i]);
    mean[i] = base_[i];
  }
}

void OuterStep::set(std::vector<float> base, std::vector<float> momentum) {
  base_ = std::move(base);
  momentum_ = std::move(momentum);
}

}  // namespace ravnest::reduce
