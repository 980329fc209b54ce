#include "ravnest/reduce/sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "ravnest/base/error.h"

// Twice as wide where the machine can. (Sanitizers, for which we build with Clang, do not get along
// with functions that are chosen when the program starts.)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define RAVNEST_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define RAVNEST_WIDE
#endif

namespace ravnest::reduce {

namespace {

constexpr std::size_t kBlock = 256;
constexpr std::uint32_t kInfinity = 0x7f800000;

// All ones in the exponent: an infinity, or no number at all.
std::uint32_t is_wild(float value) {
  return static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & kInfinity) == kInfinity);
}

float float_at(const std::byte* bytes, std::size_t index) {
  float value = 0.0F;
  std::memcpy(&value, bytes + index * sizeof(float), sizeof(float));
  return value;
}

RAVNEST_WIDE bool is_run_finite(std::span<const std::byte> run) {
  std::uint32_t wild = 0;
  for (std::size_t i = 0; i < run.size() / sizeof(float); ++i) {
    wild |= is_wild(float_at(run.data(), i));
  }
  return wild == 0;
}

// In blocks that stay in the cache: whose sums are not all finite is left as it was, so that it can
// be told whose values did it.
RAVNEST_WIDE bool add_and_scale_run(float* sums, std::span<const std::byte> run, float factor) {
  std::array<float, kBlock> block;
  const std::size_t count = run.size() / sizeof(float);
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t size = std::min(kBlock, count - start);
    const std::byte* const from = run.data() + start * sizeof(float);
    std::uint32_t wild = 0;
    for (std::size_t i = 0; i < size; ++i) {
      block[i] = (sums[start + i] + float_at(from, i)) * factor;
      wild |= is_wild(block[i]);
    }
    if (wild != 0) {
      return false;
    }
    std::copy_n(block.data(), size, sums + start);
  }
  return true;
}

RAVNEST_WIDE bool copy_run(float* values, std::span<const std::byte> run) {
  std::uint32_t wild = 0;
  for (std::size_t i = 0; i < run.size() / sizeof(float); ++i) {
    values[i] = float_at(run.data(), i);
    wild |= is_wild(values[i]);
  }
  return wild == 0;
}

// Whether `each(where in `into`, run)` was true for all runs of `from`, which has as many floats.
template <typename Each>
bool all_runs(std::span<float> into, Parts from, const Each& each) {
  RAVNEST_CHECK(nbytes_of(from) == into.size_bytes());
  bool is_good = true;
  for_each_run(from, [&](std::size_t first, std::span<const std::byte> run) {
    is_good = is_good && each(into.data() + first, run);
  });
  return is_good;
}

}  // namespace

bool are_finite(std::span<const float> values) { return is_run_finite(std::as_bytes(values)); }

bool are_finite(Parts values) {
  bool is_good = true;
  for_each_run(values,
               [&](std::size_t, std::span<const std::byte> run) { is_good &= is_run_finite(run); });
  return is_good;
}

float largest(std::span<const float> values) {
  float found = 0.0F;
  for (const float value : values) {
    found = std::max(found, std::abs(value));
  }
  return found;
}

float largest(Parts values) {
  float found = 0.0F;
  for_each_run(values, [&](std::size_t, std::span<const std::byte> run) {
    for (std::size_t i = 0; i < run.size() / sizeof(float); ++i) {
      found = std::max(found, std::abs(float_at(run.data(), i)));
    }
  });
  return found;
}

bool add(std::span<float> into, Parts from) { return add_and_scale(into, from, 1.0F); }

bool add_and_scale(std::span<float> into, Parts from, float factor) {
  return all_runs(into, from, [factor](float* sums, std::span<const std::byte> run) {
    return add_and_scale_run(sums, run, factor);
  });
}

bool copy(std::span<float> into, Parts from) { return all_runs(into, from, copy_run); }

RAVNEST_WIDE bool scale(std::span<float> values, float factor) {
  std::uint32_t wild = 0;
  for (float& value : values) {
    value *= factor;
    wild |= is_wild(value);
  }
  return wild == 0;
}

RAVNEST_WIDE void subtract(std::span<float> into, std::span<const float> values,
                           std::span<const float> less, float factor) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    into[i] = (values[i] - less[i]) * factor;
  }
}

void take_maxima(std::span<std::int64_t> into, std::span<const std::int64_t> from) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    into[i] = std::max(into[i], from[i]);
  }
}

bool trimmed_mean(std::span<float> into, std::span<const std::span<const float>> contributions) {
  const auto factor = 1.0F / static_cast<float>(contributions.size() - 2);
  std::array<float, kBlock> least;
  std::array<float, kBlock> most;
  std::array<float, kBlock> sum;
  std::uint32_t wild = 0;
  for (std::size_t start = 0; start < into.size(); start += kBlock) {
    const std::size_t size = std::min(kBlock, into.size() - start);
    std::copy_n(contributions[0].data() + start, size, least.data());
    most = least;
    sum.fill(0.0F);
    bool is_first = true;
    for (const auto& values : contributions.subspan(1)) {
      const float* const next = values.data() + start;
      // What is left out never enters the sum: a huge value would swallow the others there.
      for (std::size_t i = 0; i < size; ++i) {
        const float not_least = std::max(next[i], least[i]);
        least[i] = std::min(next[i], least[i]);
        sum[i] += is_first ? 0.0F : std::min(not_least, most[i]);
        most[i] = is_first ? not_least : std::max(not_least, most[i]);
      }
      is_first = false;
    }
    for (std::size_t i = 0; i < size; ++i) {
      into[start + i] = sum[i] * factor;
      wild |= is_wild(into[start + i]);
    }
  }
  return wild == 0;
}

}  // namespace ravnest::reduce
