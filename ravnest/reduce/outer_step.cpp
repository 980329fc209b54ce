#include "ravnest/reduce/outer_step.h"

#include "ravnest/base/error.h"

namespace ravnest::reduce {

void OuterStep::apply(std::span<const float> base, std::span<float> mean) {
  if (!options_.is_nesterov) {
    return;
  }
  RAVNEST_CHECK(base.size() == momentum_.size() && mean.size() == momentum_.size());
  const auto rate = static_cast<float>(options_.rate);
  const auto keep = static_cast<float>(options_.momentum);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const float gradient = base[i] - mean[i];
    momentum_[i] = keep * momentum_[i] + gradient;
    mean[i] = base[i] - rate * (gradient + keep * momentum_[i]);
  }
}

}  // namespace ravnest::reduce
