#include "ravnest/provider/score.h"

#include <ATen/core/grad_mode.h>

namespace ravnest::provider {

namespace {

// A 1 for the class of each prediction, 0 for the others.
bool is_one_hot(const at::Tensor& target, std::int64_t classes) {
  return target.eq(0).logical_or(target.eq(1)).all().item<bool>() &&
         target.sum(classes).eq(1).all().item<bool>();
}

}  // namespace

PassResult count_correct(const at::Tensor& output, const at::Tensor& target) {
  if (output.dim() < 2 || output.numel() == 0) {
    return {};
  }
  const at::NoGradGuard no_grad;
  const bool is_shaped_alike = target.sizes() == output.sizes();
  // Classes stand second (as for cross_entropy), or last where the target says so.
  for (const std::int64_t classes : {std::int64_t{1}, output.dim() - 1}) {
    if (output.size(classes) < 2) {
      continue;  // there is nothing to choose from
    }
    if (is_shaped_alike && !is_one_hot(target, classes)) {
      continue;  // several targets, such as those of a regression
    }
    const at::Tensor found = output.argmax(classes);
    const at::Tensor wanted = is_shaped_alike ? target.argmax(classes) : target;
    if (wanted.sizes() == found.sizes() && !wanted.is_floating_point()) {
      return {.correct = found.eq(wanted).sum().item<std::int64_t>(), .counted = found.numel()};
    }
  }
  return {};
}

}  // namespace ravnest::provider
