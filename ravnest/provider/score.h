#pragma once

#include <ATen/core/Tensor.h>

#include "ravnest/provider/pass.h"

namespace ravnest::provider {

// How many of a model's predictions of a class are right. `output` holds a score for each class
// in its second dimension, or in its last; the target holds class indices, or in the same shape a 1
// for the class and 0 for the others (one-hot). Nothing is counted where they do not go together.
PassResult count_correct(const at::Tensor& output, const at::Tensor& target);

}  // namespace ravnest::provider
