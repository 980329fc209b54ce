// Rings whose values c10d's Gloo moves.

#include "ravnest/provider/gloo/gloo_engine.h"

#include <gtest/gtest.h>

#include "tests/reduce/ring_world.h"

namespace ravnest::provider {
namespace {

using reduce::Average;
using reduce::Contribution;
using reduce::mean_of;
using reduce::Milliseconds;
using reduce::ranks_to;
using reduce::RingOptions;
using reduce::same_bits;
using GlooRing = reduce::TestRing<transport::LoopbackWorld>;

RingOptions patient(std::size_t values, std::size_t maxima = 3) {
  return {.values = values,
          .maxima = maxima,
          .silence = Milliseconds(20'000),
          .patience = Milliseconds(60'000),
          .progress = Milliseconds(100)};
}

void expect_mean(GlooRing& ring, std::size_t round, const std::vector<std::size_t>& ranks) {
  for (const std::size_t rank : ranks) {
    ASSERT_TRUE(ring[rank].wait_for_averages(round + 1)) << rank;
    const Average average = ring[rank].averages.entries()[round];
    const Average first = ring[ranks[0]].averages.entries()[round];
    const Contribution wanted = mean_of(ranks, average.round, ring.options());
    EXPECT_LE(reduce::largest_difference(average.result.values, wanted.values), 1e-6F);
    EXPECT_TRUE(same_bits(average.result.values, first.result.values));
    EXPECT_EQ(average.result.maxima, wanted.maxima);
    EXPECT_EQ(average.members, ring.names(ranks));
  }
}

TEST(GlooEngine, AveragesForRanksAndSizes) {
  for (std::size_t members = 1; members <= 5; ++members) {
    for (const std::size_t values : {0U, 1U, 7U, 1000U, 100'003U}) {
      SCOPED_TRACE(concat(members, " members, ", values, " values"));
      GlooRing ring(members, patient(values), gloo_engine(false));
      ring.make_all();
      ring.start_all();
      ring.offer_all();
      expect_mean(ring, 0, ranks_to(members));
    }
  }
}

TEST(GlooEngine, KeepsItsConnections) {
  GlooRing ring(2, patient(1000), gloo_engine(false));
  std::atomic<int> keys = 0;
  for (const std::size_t rank : {0U, 1U}) {
    ring.make(rank, [&](const std::string&, const transport::Message& message) {
      const bool is_key =
          !message.tensors.empty() && message.tensors[0].dtype == graph::DType::kUInt8;
      keys += is_key ? 1 : 0;
      return true;
    });
  }
  ring.start_all();
  int after_first = 0;
  for (std::size_t round = 0; round < 5; ++round) {
    ring.offer_all();
    expect_mean(ring, round, {0, 1});
    after_first = round == 0 ? keys.load() : after_first;
  }
  EXPECT_GT(after_first, 0);
  EXPECT_EQ(keys, after_first);
}

TEST(GlooEngine, GoesOnWithoutALostMemberAndWithItAgain) {
  RingOptions options = patient(1000);
  options.silence = Milliseconds(1000);
  options.patience = Milliseconds(1000);
  GlooRing ring(3, options, gloo_engine(false));
  ring.make_all();
  ring.start_all();
  ring.offer_all();
  expect_mean(ring, 0, {0, 1, 2});
  ring.kill(2);
  ring.offer_all();
  EXPECT_TRUE(ring[0].wait_for_members(ring.names({0, 1})));
  EXPECT_TRUE(ring[1].wait_for_members(ring.names({0, 1})));
  const std::int64_t last = ring[0].averages.entries().back().round;
  ring.make(2);
  ring[2].ring().start();
  for (const std::size_t rank : {0U, 1U, 2U}) {
    ring[rank].is_eager = true;
  }
  ring.offer_all();
  for (const std::size_t rank : {0U, 1U, 2U}) {
    EXPECT_TRUE(ring[rank].wait_for_members(ring.names({0, 1, 2}), last + 1)) << rank;
  }
}

TEST(GlooEngine, GoesOnWithoutASlowMemberAndWithItAgain) {
  RingOptions options = patient(1000);
  options.patience = Milliseconds(500);
  GlooRing ring(3, options, gloo_engine(false));
  ring.make_all();
  ring.start_all();
  ring.offer_all();
  expect_mean(ring, 0, {0, 1, 2});
  ring[0].ring().offer();
  ring[1].ring().offer();
  expect_mean(ring, 1, {0, 1});
  ring.offer_all();
  for (const std::size_t rank : {0U, 1U, 2U}) {
    ASSERT_TRUE(ring[rank].wait_for_averages(rank < 2 ? 3 : 2)) << rank;
    EXPECT_TRUE(same_bits(ring[rank].averages.entries().back().result.values,
                          ring[0].averages.entries().back().result.values));
  }
}

TEST(GlooEngine, NamesWhoseValuesAreNotFinite) {
  GlooRing ring(3, patient(100), gloo_engine(false));
  ring.make_all();
  ring[1].is_spoilt = true;
  ring.start_all();
  ring.offer_all();
  EXPECT_TRUE(ring[0].wait_for_notice("node_1 has values that are not finite"));
  ASSERT_TRUE(ring[0].wait_for_members(ring.names({0, 2})));
  ASSERT_TRUE(ring[2].wait_for_members(ring.names({0, 2})));
  EXPECT_TRUE(same_bits(ring[0].averages.entries().back().result.values,
                        ring[2].averages.entries().back().result.values));
}

// Of the network, an address that no machine has (RFC 5737).
TEST(GlooEngine, SaysAtOnceWhereItCannotListen) {
  GlooRing ring(2, patient(10), gloo_engine(true, "192.0.2.1:8081"));
  ring.make_all();
  try {
    ring.start_all();
    ADD_FAILURE();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("node_0 cannot listen at 192.0.2.1 for Gloo: "),
              std::string::npos)
        << error.what();
  }
}

TEST(GlooEngine, ListensWhereItIsToldTo) {
  GlooRing ring(2, patient(1000), gloo_engine(true, "127.0.0.1:8081"));
  ring.make_all();
  ring.start_all();
  ring.offer_all();
  expect_mean(ring, 0, {0, 1});
}

TEST(GlooEngine, TakesNeitherCodecNorTrimmedMean) {
  for (const bool is_trimmed : {false, true}) {
    RingOptions options = patient(10);
    options.mean = is_trimmed ? reduce::Mean::kTrimmed : reduce::Mean::kPlain;
    options.codec = transport::parse_codec(is_trimmed ? "none" : "fp16");
    GlooRing ring(1, options, gloo_engine(false));
    ring.make_all();
    EXPECT_THROW(ring.start_all(), std::invalid_argument);
  }
}

}  // namespace
}  // namespace ravnest::provider
