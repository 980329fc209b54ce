#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>

// The formulas, each written once and used twice: on the elements of a fused loop (T is
// float or double) and, where there is no such loop, on whole tensors (T is at::Tensor).
// A rule gets the value, kRead operands that it reads and kKept that it changes. It
// assigns new values and changes nothing in place.
namespace ravnest::engine::optim {

template <typename T>
using Factor = std::conditional_t<std::is_same_v<T, at::Tensor>, double, T>;

template <typename T>
T larger(const T& a, const T& b) {
  return a > b ? a : b;  // b where one of them is not a number
}
template <>
inline at::Tensor larger(const at::Tensor& a, const at::Tensor& b) {
  return at::maximum(a, b);
}

// The gradient with its scale and the L2 penalty. A decay of 0 is left out, not
// multiplied: a weight may be infinite.
template <typename T>
T decayed(const T& gradient, double scale, const T& value, double decay) {
  using F = Factor<T>;
  const T scaled = gradient * F(scale);
  return decay == 0.0 ? scaled : T(scaled + value * F(decay));
}

template <bool Momentum>
struct SgdRule {
  static constexpr std::size_t kRead = 1;
  static constexpr std::size_t kKept = Momentum ? 1 : 0;
  double scale = 1.0;
  double decay = 0.0;
  double rate = 0.0;
  double momentum = 0.0;
  double fresh = 1.0;  // of the gradient in the momentum buffer
  bool nesterov = false;

  template <typename T>
  void operator()(T& value, const std::array<T, kRead>& read, std::array<T, kKept>& kept) const {
    using F = Factor<T>;
    T direction = decayed(read[0], scale, value, decay);
    if constexpr (Momentum) {
      kept[0] = kept[0] * F(momentum) + direction * F(fresh);
      direction = nesterov ? T(direction + kept[0] * F(momentum)) : kept[0];
    }
    value = value - direction * F(rate);
  }
};

template <bool Amsgrad>
struct AdamRule {
  static constexpr std::size_t kRead = 1;
  static constexpr std::size_t kKept = Amsgrad ? 3 : 2;
  double scale = 1.0;
  double decay = 0.0;
  double shrink = 1.0;  // of the value: decoupled decay
  double beta1 = 0.0;
  double beta2 = 0.0;
  double correction = 1.0;  // of the root of the second moment
  double eps = 0.0;
  double size = 0.0;  // the rate, with the first moment's correction

  template <typename T>
  void operator()(T& value, const std::array<T, kRead>& read, std::array<T, kKept>& kept) const {
    using F = Factor<T>;
    using std::sqrt;
    const T gradient = decayed(read[0], scale, value, decay);
    kept[0] = kept[0] + (gradient - kept[0]) * F(1.0 - beta1);
    kept[1] = kept[1] * F(beta2) + gradient * gradient * F(1.0 - beta2);
    T square = kept[1];
    if constexpr (Amsgrad) {
      kept[2] = larger(kept[2], kept[1]);
      square = kept[2];
    }
    const T root = sqrt(square) * F(correction) + F(eps);
    value = value * F(shrink) - kept[0] * F(size) / root;
  }
};

struct NadamRule {
  static constexpr std::size_t kRead = 1;
  static constexpr std::size_t kKept = 2;
  double scale = 1.0;
  double decay = 0.0;
  double shrink = 1.0;
  double beta1 = 0.0;
  double beta2 = 0.0;
  double correction = 1.0;
  double eps = 0.0;
  double gradient_size = 0.0;
  double average_size = 0.0;

  template <typename T>
  void operator()(T& value, const std::array<T, kRead>& read, std::array<T, kKept>& kept) const {
    using F = Factor<T>;
    using std::sqrt;
    const T gradient = decayed(read[0], scale, value, decay);
    kept[0] = kept[0] + (gradient - kept[0]) * F(1.0 - beta1);
    kept[1] = kept[1] * F(beta2) + gradient * gradient * F(1.0 - beta2);
    const T root = sqrt(kept[1]) * F(correction) + F(eps);
    value = value * F(shrink) - (gradient * F(gradient_size) + kept[0] * F(average_size)) / root;
  }
};

// Keeps the mean of squares; with momentum, the buffer; centered, the mean.
template <bool Momentum, bool Centered>
struct RmspropRule {
  static constexpr std::size_t kRead = 1;
  static constexpr std::size_t kKept = 1 + (Momentum ? 1 : 0) + (Centered ? 1 : 0);
  double scale = 1.0;
  double decay = 0.0;
  double rate = 0.0;
  double alpha = 0.0;
  double eps = 0.0;
  double momentum = 0.0;

  template <typename T>
  void operator()(T& value, const std::array<T, kRead>& read, std::array<T, kKept>& kept) const {
    using F = Factor<T>;
    using std::sqrt;
    const T gradient = decayed(read[0], scale, value, decay);
    kept[0] = kept[0] * F(alpha) + gradient * gradient * F(1.0 - alpha);
    T square = kept[0];
    if constexpr (Centered) {
      T& mean = kept[kKept - 1];
      mean = mean + (gradient - mean) * F(1.0 - alpha);
      square = square - mean * mean;
    }
    T direction = gradient / (sqrt(square) + F(eps));
    if constexpr (Momentum) {
      kept[1] = kept[1] * F(momentum) + direction;
      direction = kept[1];
    }
    value = value - direction * F(rate);
  }
};

struct AdagradRule {
  static constexpr std::size_t kRead = 1;
  static constexpr std::size_t kKept = 1;
  double scale = 1.0;
  double decay = 0.0;
  double rate = 0.0;
  double eps = 0.0;

  template <typename T>
  void operator()(T& value, const std::array<T, kRead>& read, std::array<T, kKept>& kept) const {
    using F = Factor<T>;
    using std::sqrt;
    const T gradient = decayed(read[0], scale, value, decay);
    kept[0] = kept[0] + gradient * gradient;
    value = value - gradient * F(rate) / (sqrt(kept[0]) + F(eps));
  }
};

// Prediction along a momentum buffer.
struct DriftRule {
  static constexpr std::size_t kRead = 1;
  static constexpr std::size_t kKept = 0;
  double distance = 0.0;

  template <typename T>
  void operator()(T& value, const std::array<T, kRead>& read, std::array<T, kKept>&) const {
    value = value - read[0] * Factor<T>(distance);
  }
};

// Prediction along the first moment (read first) over the root of the second.
struct AdaptiveDriftRule {
  static constexpr std::size_t kRead = 2;
  static constexpr std::size_t kKept = 0;
  double shrink = 1.0;
  double correction = 1.0;
  double eps = 0.0;
  double size = 0.0;

  template <typename T>
  void operator()(T& value, const std::array<T, kRead>& read, std::array<T, kKept>&) const {
    using F = Factor<T>;
    using std::sqrt;
    value = value * F(shrink) - read[0] * F(size) / (sqrt(read[1]) * F(correction) + F(eps));
  }
};

// DC-ASGD: the value is a gradient; reads the weights of now and those it was taken at.
struct DelayRule {
  static constexpr std::size_t kRead = 2;
  static constexpr std::size_t kKept = 0;
  double strength = 0.0;

  template <typename T>
  void operator()(T& value, const std::array<T, kRead>& read, std::array<T, kKept>&) const {
    value = value + value * value * (read[0] - read[1]) * Factor<T>(strength);
  }
};

}  // namespace ravnest::engine::optim
