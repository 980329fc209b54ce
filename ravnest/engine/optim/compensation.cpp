#include "ravnest/engine/optim/compensation.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "ravnest/base/error.h"
#include "ravnest/engine/optim/loops.h"
#include "ravnest/engine/optim/rules.h"

namespace ravnest::engine {

namespace {

// In float where the dtype has too few digits for a sum.
double norm_of(const at::Tensor& gradient) {
  const bool reduced = at::isReducedFloatingType(gradient.scalar_type());
  return (reduced ? at::norm(gradient, 2, at::kFloat) : at::norm(gradient)).item<double>();
}

}  // namespace

double gradient_norm(std::span<const at::Tensor> gradients) {
  const at::NoGradGuard no_grad;
  double sum = 0.0;
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined()) {
      const double norm = norm_of(gradient);
      sum += norm * norm;
    }
  }
  return std::sqrt(sum);
}

double clip_factor(double norm, double max_norm) {
  if (!(max_norm > 0.0)) {
    throw_invalid("[optim] expected a norm above 0 to clip gradients to, got ", max_norm, ".");
  }
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1.0 ? 1.0 : factor;
}

double warmup_factor(double delay, std::int64_t update, std::int64_t warmup_updates) {
  if (delay <= 1.0 || update >= warmup_updates) {
    return 1.0;
  }
  const double done = static_cast<double>(update) / static_cast<double>(warmup_updates);
  return std::pow(delay, done - 1.0);
}

void compensate_delay(const at::Tensor& gradient, const at::Tensor& now, const at::Tensor& then,
                      double strength) {
  if (gradient.sizes() != now.sizes() || gradient.sizes() != then.sizes()) {
    throw_invalid("[optim] expected a gradient and two weights of one shape, got ",
                  gradient.sizes(), ", ", now.sizes(), " and ", then.sizes(), ".");
  }
  const at::NoGradGuard no_grad;
  optim::apply(optim::DelayRule{strength}, gradient, gradient, {now, then}, {});
}

}  // namespace ravnest::engine
