#include "ravnest/reduce/parts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ravnest/reduce/sums.h"

namespace ravnest::reduce {
namespace {

// Floats 1, 2, 3, … cut after so many bytes, again and again.
std::vector<Bytes> counting(std::size_t count, std::size_t part) {
  std::vector<float> floats(count);
  for (std::size_t i = 0; i < count; ++i) {
    floats[i] = static_cast<float>(i + 1);
  }
  const Bytes whole = Bytes::copy_of(std::as_bytes(std::span(floats)));
  std::vector<Bytes> parts;
  for (std::size_t at = 0; at < whole.size(); at += part) {
    parts.push_back(whole.slice(at, std::min(part, whole.size() - at)));
  }
  return parts;
}

TEST(Parts, SumsDoNotMindWhereTheyAreCut) {
  constexpr std::size_t kCount = 100;
  for (const std::size_t part : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 11U, 64U, 399U, 400U}) {
    SCOPED_TRACE(part);
    const std::vector<Bytes> parts = counting(kCount, part);
    std::vector<float> copied(kCount);
    std::vector<float> added(kCount, 0.5F);
    std::vector<float> scaled(kCount, 1.0F);
    EXPECT_TRUE(copy(copied, parts));
    EXPECT_TRUE(add(added, parts));
    EXPECT_TRUE(add_and_scale(scaled, parts, 0.5F));
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto value = static_cast<float>(i + 1);
      EXPECT_EQ(copied[i], value);
      EXPECT_EQ(added[i], value + 0.5F);
      EXPECT_EQ(scaled[i], (value + 1.0F) * 0.5F);
    }
    const Bytes whole = joined(parts);
    EXPECT_EQ(std::memcmp(whole.data(), copied.data(), whole.size()), 0);
  }
}

TEST(Parts, FindWhatIsNotFiniteWhereverItIsCut) {
  std::vector<float> floats(50, 1.0F);
  for (const float wild : {INFINITY, -INFINITY, NAN}) {
    floats[17] = wild;
    const Bytes whole = Bytes::copy_of(std::as_bytes(std::span(floats)));
    for (std::size_t at = 1; at < whole.size(); ++at) {
      const std::vector<Bytes> parts{whole.slice(0, at), whole.slice(at, whole.size() - at)};
      std::vector<float> into(floats.size());
      EXPECT_FALSE(are_finite(parts));
      EXPECT_FALSE(add(into, parts));
    }
  }
}

}  // namespace
}  // namespace ravnest::reduce
