#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ravnest/reduce/parts.h"

namespace ravnest::reduce {

// Loops over floats that the compiler turns into vector code. Where they return a bool: whether
// every result is finite. Both ranges have the same size.

bool are_finite(std::span<const float> values);
bool are_finite(Parts values);
// The largest magnitude of finite values.
float largest(std::span<const float> values);
float largest(Parts values);
// The next two write nothing from about the first result on that is not finite.
// into += from
bool add(std::span<float> into, Parts from);
// into = (into + from) · factor
bool add_and_scale(std::span<float> into, Parts from, float factor);
// values = values · factor
bool scale(std::span<float> values, float factor);
// into = from
bool copy(std::span<float> into, Parts from);
// into = (values - less) · factor
void subtract(std::span<float> into, std::span<const float> values, std::span<const float> less,
              float factor);
void take_maxima(std::span<std::int64_t> into, std::span<const std::int64_t> from);

// Of every coordinate the mean without the largest and the smallest; three contributions or more.
bool trimmed_mean(std::span<float> into, std::span<const std::span<const float>> contributions);

}  // namespace ravnest::reduce
