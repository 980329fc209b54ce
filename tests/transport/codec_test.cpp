#include "ravnest/transport/codec/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "ravnest/transport/codec/numbers.h"

namespace ravnest::transport {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor tensor_of(const std::vector<float>& values, std::vector<std::int64_t> shape) {
  return {.dtype = graph::DType::kFloat32,
          .shape = std::move(shape),
          .bytes = Bytes::copy_of(std::as_bytes(std::span(values)))};
}

std::vector<float> values_of(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return values;
}

Bytes decoded(const Encoded& encoded, const Tensor& tensor) {
  return decode(encoded.bytes, encoded.codec, static_cast<std::int64_t>(tensor.dtype), tensor.shape,
                {});
}

std::vector<float> random_values(std::size_t count, float spread) {
  std::mt19937 random(7);
  std::normal_distribution<float> draw(0.0F, spread);
  std::vector<float> values(count);
  for (float& value : values) {
    value = draw(random);
  }
  return values;
}

// What a half is worth, from its definition.
double half_value(unsigned half) {
  const int exponent = static_cast<int>((half >> 10) & 0x1F);
  const double fraction = static_cast<double>(half & 0x3FF) / 1024.0;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0 + fraction, exponent - 15);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint16_t to_half(float value) {
  std::uint16_t half = 0;
  EXPECT_TRUE(to_float16({&value, 1}, &half));
  return half;
}

TEST(Float16, EveryHalfComesBackAsItself) {
  for (unsigned half = 0; half < 0x10000; ++half) {
    const auto one = static_cast<std::uint16_t>(half);
    float value = 0;
    from_float16({&one, 1}, &value);
    if ((half & 0x7C00) != 0x7C00) {
      EXPECT_EQ(static_cast<double>(value), half_value(half)) << half;
      EXPECT_EQ(to_half(value), half);
    } else if ((half & 0x3FF) == 0) {
      EXPECT_EQ(std::abs(value), kInfinite);
      EXPECT_EQ(to_half(value), half);
    } else {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(to_half(value) & 0x7E00, 0x7E00);
    }
  }
}

TEST(Float16, RoundsToTheNearestAndTiesToEven) {
  for (unsigned half = 0; half < 0x7BFF; ++half) {
    const double low = half_value(half);
    const double high = half_value(half + 1);
    const double middle = (low + high) / 2;
    EXPECT_EQ(to_half(static_cast<float>(middle)), half + (half & 1)) << half;
    EXPECT_EQ(to_half(static_cast<float>(low + (high - low) * 0.49)), half);
    EXPECT_EQ(to_half(static_cast<float>(low + (high - low) * 0.51)), half + 1);
  }
}

TEST(Float16, SaysWhenAFiniteValueDoesNotFit) {
  std::uint16_t half = 0;
  for (const float value : {65519.0F, -65519.0F}) {
    EXPECT_TRUE(to_float16({&value, 1}, &half));
    EXPECT_EQ(half & 0x7FFF, 0x7BFF);
  }
  for (const float value : {65520.0F, -1e30F}) {
    EXPECT_FALSE(to_float16({&value, 1}, &half));
  }
}

TEST(BFloat16, RoundsToTheNearestAndTiesToEven) {
  const auto bhalf_of = [](std::uint32_t bits) {
    const auto value = std::bit_cast<float>(bits);
    std::uint16_t half = 0;
    EXPECT_TRUE(to_bfloat16({&value, 1}, &half));
    return half;
  };
  EXPECT_EQ(bhalf_of(0x3F800000), 0x3F80);
  EXPECT_EQ(bhalf_of(0x3F808000), 0x3F80);  // a tie, to even
  EXPECT_EQ(bhalf_of(0x3F818000), 0x3F82);
  EXPECT_EQ(bhalf_of(0x3F808001), 0x3F81);
  EXPECT_EQ(bhalf_of(0xFF800000), 0xFF80);
  EXPECT_TRUE((bhalf_of(0x7F800001) & 0x7F) != 0);  // NaN stays NaN
  const float largest = std::numeric_limits<float>::max();
  std::uint16_t half = 0;
  EXPECT_FALSE(to_bfloat16({&largest, 1}, &half));
}

TEST(Codec, NarrowTypesKeepTheirPrecision) {
  const Tensor tensor = tensor_of(random_values(10'000, 3.0F), {100, 100});
  for (const auto& [name, error] : {std::pair("fp16", 1.0 / 2048), std::pair("bf16", 1.0 / 256)}) {
    const Encoded encoded = encode(tensor, parse_codec(name));
    EXPECT_EQ(encoded.bytes.size(), tensor.bytes.size() / 2);
    const auto before = values_of(tensor.bytes);
    const auto after = values_of(decoded(encoded, tensor));
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_NEAR(after[i], before[i], std::abs(before[i]) * error + 1e-7) << name;
    }
  }
}

TEST(Codec, Int8KeepsEveryRowWithinHalfAStep) {
  auto values = random_values(64 * 100, 1.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= std::pow(10.0F, static_cast<float>(i / 100 % 20) - 10.0F);  // rows far apart
  }
  const Tensor tensor = tensor_of(values, {8, 8, 100});
  const Encoded encoded = encode(tensor, parse_codec("int8"));
  EXPECT_EQ(encoded.bytes.size(), 64 * 4 + 6400U);
  const auto after = values_of(decoded(encoded, tensor));
  for (std::size_t row = 0; row < 64; ++row) {
    float largest = 0;
    for (std::size_t i = row * 100; i < row * 100 + 100; ++i) {
      largest = std::max(largest, std::abs(values[i]));
    }
    for (std::size_t i = row * 100; i < row * 100 + 100; ++i) {
      EXPECT_NEAR(after[i], values[i], largest / 127 * 0.501);
    }
  }
}

TEST(Codec, Int8OfALongRowHasAScaleForEveryRun) {
  auto values = random_values(2 * 2500, 1e-6F);
  values[0] = 1.0F;  // what it is large beside is in the first run of the first row alone
  const Tensor tensor = tensor_of(values, {2, 2500});
  const Encoded encoded = encode(tensor, parse_codec("int8"));
  EXPECT_EQ(encoded.bytes.size(), 6 * 4 + 5000U);
  const auto after = values_of(decoded(encoded, tensor));
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(after[i], values[i], i < kLongestRow ? 0.501 / 127 : 5e-6 * 0.501 / 127) << i;
  }
}

TEST(Codec, Int8OfZerosAndTinyRowsIsZero) {
  const Tensor tensor =
      tensor_of({0, 0, 0, 0, 0, 0, 0, 0, 1e-40F, -1e-40F, 0, 0, 0, 0, 0, 0}, {2, 8});
  const Encoded encoded = encode(tensor, parse_codec("int8"));
  EXPECT_EQ(encoded.codec, parse_codec("int8"));
  EXPECT_EQ(values_of(decoded(encoded, tensor)), std::vector<float>(16));
}

TEST(Codec, SendsUnchangedWhatItCannotCarry) {
  for (const float bad : {kInfinite, -kInfinite, kNan}) {
    auto values = random_values(100, 1.0F);
    values[57] = bad;
    const Tensor tensor = tensor_of(values, {10, 10});
    const Encoded encoded = encode(tensor, parse_codec("int8"));
    EXPECT_EQ(encoded.codec, Codec());
    EXPECT_EQ(encoded.bytes.data(), tensor.bytes.data());
    // The narrower floats have infinities and NaN of their own.
    const Encoded half = encode(tensor, parse_codec("fp16"));
    EXPECT_EQ(half.codec, parse_codec("fp16"));
    const auto after = values_of(decoded(half, tensor));
    EXPECT_TRUE(std::isnan(bad) ? std::isnan(after[57]) : after[57] == bad);
  }
  const Tensor large = tensor_of({1.0F, 1e6F}, {2});
  EXPECT_EQ(encode(large, parse_codec("fp16")).codec, Codec());
  EXPECT_EQ(encode(large, parse_codec("bf16")).codec, parse_codec("bf16"));
}

TEST(Codec, LeavesOtherDtypesAndEmptyTensorsAlone) {
  const Tensor integers{.dtype = graph::DType::kInt64,
                        .shape = {2},
                        .bytes = Bytes::take(std::vector<std::byte>(16))};
  EXPECT_EQ(encode(integers, parse_codec("int8")).codec, Codec());
  const Tensor empty = tensor_of({}, {3, 0});
  for (const char* name : {"fp16", "int8", "zstd", "int8+zstd"}) {
    const Encoded encoded = encode(empty, parse_codec(name));
    EXPECT_EQ(encoded.codec, Codec()) << name;
    EXPECT_EQ(decoded(encoded, empty).size(), 0U);
  }
}

TEST(Codec, ReadsFloatsThatAreNotAligned) {
  const Tensor whole = tensor_of(random_values(101, 1.0F), {101});
  std::vector<std::byte> shifted(405);
  std::memcpy(shifted.data() + 1, whole.bytes.data(), 404);
  const Tensor odd{
      .dtype = whole.dtype, .shape = whole.shape, .bytes = Bytes::take(shifted).slice(1, 404)};
  for (const char* name : {"fp16", "bf16", "int8"}) {
    EXPECT_EQ(values_of(decoded(encode(odd, parse_codec(name)), odd)),
              values_of(decoded(encode(whole, parse_codec(name)), whole)));
  }
}

TEST(Codec, ZstdSavesWhereItCanAndIsLeftOutWhereNot) {
  const Tensor zeros = tensor_of(std::vector<float>(1'000'000), {1000, 1000});
  const Encoded small = encode(zeros, parse_codec("zstd"));
  EXPECT_EQ(small.codec, parse_codec("zstd"));
  EXPECT_LT(small.bytes.size(), 10'000U);
  EXPECT_EQ(values_of(decoded(small, zeros)), std::vector<float>(1'000'000));
  std::mt19937 random(1);
  std::vector<std::byte> noise(10'000);
  for (std::byte& byte : noise) {
    byte = static_cast<std::byte>(random());
  }
  const Tensor tensor{
      .dtype = graph::DType::kUInt8, .shape = {10'000}, .bytes = Bytes::take(noise)};
  EXPECT_EQ(encode(tensor, parse_codec("zstd")).codec, Codec());
}

TEST(Codec, ZstdComesOnTopOfTheOthers) {
  const Tensor tensor = tensor_of(std::vector<float>(10'000, 0.5F), {100, 100});
  for (const char* name : {"fp16+zstd", "bf16+zstd", "int8+zstd"}) {
    const Encoded encoded = encode(tensor, parse_codec(name));
    EXPECT_EQ(name_of(encoded.codec), name);
    EXPECT_LT(encoded.bytes.size(), 1000U);
    EXPECT_EQ(values_of(decoded(encoded, tensor)), std::vector<float>(10'000, 0.5F));
  }
}

TEST(Codec, RefusesBytesThatAreNotTheTensor) {
  const Tensor tensor = tensor_of(random_values(64, 1.0F), {8, 8});
  const auto refuses = [](const Bytes& bytes, const Codec& codec, std::vector<std::int64_t> shape) {
    EXPECT_THROW(decode(bytes, codec, 7, shape, {}), std::invalid_argument) << name_of(codec);
  };
  for (const char* name : {"none", "fp16", "bf16", "int8"}) {
    const Encoded encoded = encode(tensor, parse_codec(name));
    refuses(encoded.bytes.slice(0, encoded.bytes.size() - 1), encoded.codec, {8, 8});
    refuses(encoded.bytes, encoded.codec, {8, 9});
  }
  const Tensor even = tensor_of(std::vector<float>(64), {8, 8});
  const Encoded packed = encode(even, parse_codec("zstd"));
  for (std::size_t size = 0; size < packed.bytes.size(); ++size) {
    refuses(packed.bytes.slice(0, size), packed.codec, {8, 8});
  }
  refuses(packed.bytes, packed.codec, {8, 7});
  refuses(packed.bytes, packed.codec, {8, 9});
  refuses(packed.bytes, packed.codec, {1 << 14, 1 << 14});
  refuses(tensor.bytes, packed.codec, {8, 8});
}

TEST(Codec, RefusesAScaleThatIsNotFinite) {
  std::vector<float> coded{kNan, 0.0F};  // one row: a scale and four bytes
  const Bytes bytes = Bytes::copy_of(std::as_bytes(std::span(coded)));
  const std::vector<std::int64_t> shape{1, 4};
  EXPECT_THROW(decode(bytes, parse_codec("int8"), 7, shape, {}), std::invalid_argument);
}

TEST(Codec, NamesRoundTrip) {
  for (const char* name :
       {"none", "fp16", "bf16", "int8", "zstd", "fp16+zstd", "bf16+zstd", "int8+zstd"}) {
    EXPECT_EQ(name_of(parse_codec(name)), name);
  }
  EXPECT_THROW(parse_codec("fp8"), std::invalid_argument);
  EXPECT_THROW(parse_codec(""), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest::transport
