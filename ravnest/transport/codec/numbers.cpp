#include "ravnest/transport/codec/numbers.h"

#include <algorithm>
#include <bit>

namespace ravnest::transport {

namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffff;
constexpr std::uint32_t kInfinity = 0x7f800000;

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// A half's smallest step is 2^-24, and so is the step of floats between 0.5 and 1: adding 0.5 to a
// small magnitude makes the processor round to halves, and leaves the result in the low bits.
std::uint32_t small_half(std::uint32_t magnitude) {
  return bits_of(std::bit_cast<float>(magnitude) + 0.5F) - bits_of(0.5F);
}

// Rounds to the half's 10 bits (a carry may move the exponent, which is right), then moves the
// exponent's bias from 127 to 15.
std::uint32_t normal_half(std::uint32_t magnitude) {
  return (magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000) >> 13;
}

std::uint32_t half_of(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & kMagnitude;
  const std::uint32_t finite =
      magnitude < 0x38800000 ? small_half(magnitude) : normal_half(magnitude);
  const std::uint32_t special =
      0x7c00U | (magnitude > kInfinity ? 0x200U | ((magnitude >> 13) & 0x1ffU) : 0U);
  return ((bits >> 16) & 0x8000U) | (magnitude < kInfinity ? finite : special);
}

// The first magnitude that rounds to 65536, a half's infinity.
constexpr std::uint32_t kHalfOverflow = 0x477ff000;

std::uint32_t float_of_half(std::uint32_t half) {
  const std::uint32_t rest = half & 0x7fffU;
  const std::uint32_t normal = (rest << 13) + (rest < 0x7c00U ? 0x38000000U : 0x70000000U);
  const std::uint32_t small =
      bits_of(static_cast<float>(static_cast<std::int32_t>(rest)) * 0x1p-24F);
  return ((half & 0x8000U) << 16) | (rest < 0x400U ? small : normal);
}

std::uint32_t bhalf_of(std::uint32_t bits) {
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40U;
  return (bits & kMagnitude) > kInfinity ? nan : rounded;
}

constexpr std::uint32_t kBFloatOverflow = 0x7f7f8000;

// Whether a finite value lies at or above `limit`.
bool overflows(std::span<const float> values, std::uint32_t limit) {
  std::uint32_t found = 0;
  for (const float value : values) {
    const std::uint32_t magnitude = bits_of(value) & kMagnitude;
    found |= static_cast<std::uint32_t>(magnitude >= limit) &
             static_cast<std::uint32_t>(magnitude < kInfinity);
  }
  return found != 0;
}

// Magnitudes of floats are ordered as their bits are.
std::uint32_t largest_magnitude(std::span<const float> values) {
  std::uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, bits_of(value) & kMagnitude);
  }
  return largest;
}

}  // namespace

bool to_float16(std::span<const float> values, std::uint16_t* halves) {
  if (overflows(values, kHalfOverflow)) {
    return false;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    halves[i] = static_cast<std::uint16_t>(half_of(bits_of(values[i])));
  }
  return true;
}

void from_float16(std::span<const std::uint16_t> halves, float* values) {
  for (std::size_t i = 0; i < halves.size(); ++i) {
    values[i] = std::bit_cast<float>(float_of_half(halves[i]));
  }
}

bool to_bfloat16(std::span<const float> values, std::uint16_t* halves) {
  if (overflows(values, kBFloatOverflow)) {
    return false;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    halves[i] = static_cast<std::uint16_t>(bhalf_of(bits_of(values[i])));
  }
  return true;
}

void from_bfloat16(std::span<const std::uint16_t> halves, float* values) {
  for (std::size_t i = 0; i < halves.size(); ++i) {
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(halves[i]) << 16);
  }
}

bool to_int8(std::span<const float> row, float* scale, std::int8_t* bytes) {
  const std::uint32_t largest_bits = largest_magnitude(row);
  if (largest_bits >= kInfinity) {
    return false;
  }
  const float largest = std::bit_cast<float>(largest_bits);
  const bool is_zero = largest < 1e-36F;  // its inverse would be infinite
  *scale = is_zero ? 0.0F : largest / 127.0F;
  const float inverse = is_zero ? 0.0F : 127.0F / largest;
  // Beside 1.5 · 2^23 a float has steps of one: the sum is rounded, and its low byte is the result.
  constexpr float kRounder = 12582912.0F;
  for (std::size_t i = 0; i < row.size(); ++i) {
    bytes[i] = static_cast<std::int8_t>(bits_of(row[i] * inverse + kRounder));
  }
  return true;
}

void from_int8(std::span<const std::int8_t> bytes, float scale, float* row) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    row[i] = scale * static_cast<float>(bytes[i]);
  }
}

}  // namespace ravnest::transport
