#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace ravnest::engine::optim {

// Applies a rule (rules.h) to every element and writes the new value to `result`, which
// may be `value`, and the new `kept` in place. On the CPU, where all have one dtype, it is
// one pass over memory, vectorised, on torch's threads; elsewhere tensor operations.
template <typename Rule>
void apply(const Rule& rule, const at::Tensor& value, const at::Tensor& result,
           const std::array<at::Tensor, Rule::kRead>& read,
           const std::array<at::Tensor, Rule::kKept>& kept);

}  // namespace ravnest::engine::optim
