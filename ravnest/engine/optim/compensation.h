#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

// What can be done about gradients that are too large or come late. Delay is counted in updates
// between a pass's forward and its gradient.
namespace ravnest::engine {

// The Euclidean norm of all gradients together; undefined ones count nothing.
double gradient_norm(std::span<const at::Tensor> gradients);

// What to multiply gradients of this norm with so that it is `max_norm` at most, as
// torch.nn.utils.clip_grad_norm_ does. A norm that is not finite makes it 0 or not a
// number, so that bad gradients are not hidden.
double clip_factor(double norm, double max_norm);

// PipeMare's warm-up: delay^(−p), with p falling from 1 at update 0 to 0 after
// `warmup_updates`. A delay of 1 or less asks for no caution.
double warmup_factor(double delay, std::int64_t update, std::int64_t warmup_updates);

// DC-ASGD: changes a gradient in place to g + strength · g ⊙ g ⊙ (now − then), for the
// weights it is applied to and those its forward used.
void compensate_delay(const at::Tensor& gradient, const at::Tensor& now, const at::Tensor& then,
                      double strength);

}  // namespace ravnest::engine
