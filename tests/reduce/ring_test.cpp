#include <gtest/gtest.h>

#include "tests/reduce/ring_world.h"

namespace ravnest::reduce {
namespace {

RingOptions quick(std::size_t values = 1000, std::size_t maxima = 3) {
  return {.values = values,
          .maxima = maxima,
          .silence = Milliseconds(2000),
          .patience = Milliseconds(500),
          .progress = Milliseconds(100)};
}

// For what nobody may be left out of, however busy the machine is.
RingOptions patient(RingOptions options) {
  options.silence = Milliseconds(20'000);
  options.patience = Milliseconds(60'000);
  return options;
}

// One round of all: the mean, within `bound`, and the same bits everywhere.
template <typename World>
void expect_mean(std::size_t members, const RingOptions& given, float bound) {
  const RingOptions options = patient(given);
  SCOPED_TRACE(concat(members, " members, ", options.values, " values, codec ",
                      transport::name_of(options.codec)));
  TestRing<World> ring(members, options);
  ring.make_all();
  ring.start_all();
  ring.offer_all();
  ASSERT_TRUE(ring[0].wait_for_averages(1));
  const Average first = ring[0].averages.entries()[0];
  const Contribution wanted = mean_of(ranks_to(members), first.round, options);
  EXPECT_LE(largest_difference(first.result.values, wanted.values), bound);
  for (std::size_t rank = 0; rank < members; ++rank) {
    ASSERT_TRUE(ring[rank].wait_for_averages(1)) << rank;
    const Average average = ring[rank].averages.entries()[0];
    EXPECT_EQ(average.round, first.round);
    EXPECT_TRUE(same_bits(average.result.values, first.result.values));
    EXPECT_EQ(average.result.maxima, wanted.maxima);
    EXPECT_EQ(average.members, ring.names(ranks_to(members)));
    EXPECT_TRUE(ring[rank].abandoned.entries().empty());
  }
}

// Of values between -1 and 1: partial sums of up to nine, each rounded on its way.
float bound_of(const transport::Codec& codec, std::size_t members) {
  const auto hops = static_cast<float>(members);
  switch (codec.numbers) {
    case transport::Numbers::kFloat16:
      return hops * 0x1p-11F;
    case transport::Numbers::kBFloat16:
      return hops * 0x1p-8F;
    case transport::Numbers::kInt8Rows:
      return hops / 127.0F;
    case transport::Numbers::kUnchanged:
      break;
  }
  return 1e-6F;
}

class RingOfEveryCodec : public ::testing::TestWithParam<const char*> {};

TEST_P(RingOfEveryCodec, AveragesForAllRanksAndSizes) {
  for (std::size_t members = 1; members <= 9; ++members) {
    for (const std::size_t values : {0U, 1U, 7U, 1000U, 4099U, 1'000'000U}) {
      RingOptions options = quick(values);
      options.codec = transport::parse_codec(GetParam());
      // Many chunks to a segment, but not thousands.
      options.largest_chunk = values < 10'000 ? 1024 : 128 << 10;
      expect_mean<LoopbackWorld>(members, options, bound_of(options.codec, members));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, RingOfEveryCodec,
                         ::testing::Values("none", "fp16", "bf16", "int8"),
                         [](const auto& each) { return std::string(each.param); });

// Between 1 and 2, and as many powers of ten larger or smaller.
void spread(std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double power = static_cast<double>(i % 60) - 30.0;
    values[i] = static_cast<float>((1.5 + values[i] / 2.0) * std::pow(10.0, power));
  }
}

TEST(Ring, AveragesGreatAndSmallValuesToAMillionth) {
  for (std::size_t members = 1; members <= 9; ++members) {
    TestRing<LoopbackWorld> ring(members, patient(quick(5000)));
    ring.make_all();
    for (std::size_t rank = 0; rank < members; ++rank) {
      ring[rank].adjust = spread;
    }
    ring.start_all();
    ring.offer_all();
    ASSERT_TRUE(ring[0].wait_for_averages(1));
    const Average average = ring[0].averages.entries()[0];
    std::vector<double> wanted(5000);
    for (std::size_t rank = 0; rank < members; ++rank) {
      auto own = contribution_of(rank, average.round, ring.options()).values;
      spread(own);
      for (std::size_t i = 0; i < own.size(); ++i) {
        wanted[i] += own[i] / static_cast<double>(members);
      }
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(average.result.values[i] / wanted[i], 1.0, 1e-6) << members << " members, " << i;
    }
  }
}

TEST(Ring, AveragesThroughCompression) {
  for (const char* codec : {"zstd", "fp16+zstd", "int8+zstd"}) {
    for (const std::size_t members : {1U, 2U, 3U, 5U}) {
      for (const std::size_t values : {1U, 7U, 5000U}) {
        RingOptions options = quick(values);
        options.codec = transport::parse_codec(codec);
        options.largest_chunk = 2048;
        expect_mean<LoopbackWorld>(members, options, bound_of(options.codec, members));
      }
    }
  }
}

TEST(Ring, AveragesAMillionValuesOverTheNetwork) {
  for (const std::size_t members : {2U, 3U}) {
    expect_mean<GrpcWorld>(members, quick(1'000'003), 1e-6F);
  }
}

TEST(Ring, AveragesOverTheNetwork) {
  for (const char* codec : {"none", "int8"}) {
    RingOptions options = quick(5000);
    options.codec = transport::parse_codec(codec);
    expect_mean<GrpcWorld>(4, options, bound_of(options.codec, 4));
  }
}

class RoundingRing : public ::testing::TestWithParam<const char*> {
 protected:
  // The same values as in rings without a codec, to the last bit.
  static void expect_exact(const RingOptions& options, std::size_t members, bool are_all) {
    SCOPED_TRACE(concat(members, " members, ", options.values, " values"));
    RingOptions wide = options;
    wide.codec = {};
    std::vector<std::vector<float>> results;
    for (const RingOptions& each : {options, wide}) {
      TestRing<LoopbackWorld> ring(members, patient(each));
      ring.make_all();
      for (std::size_t rank = 0; rank < members; ++rank) {
        ring[rank].is_exact = are_all;
      }
      ring.start_all();
      ring.offer_all();
      for (std::size_t rank = 0; rank < members; ++rank) {
        ASSERT_TRUE(ring[rank].wait_for_averages(1));
      }
      results.push_back(ring[members - 1].averages.entries()[0].result.values);
    }
    const auto rounded = static_cast<std::ptrdiff_t>(options.values - options.exact);
    EXPECT_TRUE(same_bits({results[0].begin() + rounded, results[0].end()},
                          {results[1].begin() + rounded, results[1].end()}));
    const bool is_same = same_bits(results[0], results[1]);
    EXPECT_EQ(is_same, are_all || rounded == 0 || members == 1);
  }
};

TEST_P(RoundingRing, LeavesExactValuesAsTheyAre) {
  for (const std::size_t members : {1U, 2U, 3U, 5U}) {
    for (const Mean mean : {Mean::kPlain, Mean::kTrimmed}) {
      for (const std::size_t exact : {1U, 700U, 3000U}) {
        RingOptions options = quick(3000);
        options.exact = exact;
        options.codec = transport::parse_codec(GetParam());
        options.mean = mean;
        options.largest_chunk = 512;
        expect_exact(options, members, false);
      }
    }
  }
}

TEST_P(RoundingRing, RoundsNothingWhereItMayNot) {
  for (const std::size_t members : {2U, 3U}) {
    RingOptions options = quick(3000);
    options.codec = transport::parse_codec(GetParam());
    expect_exact(options, members, true);
  }
}

// In the long run the sum of what was averaged is that of the means, though each is rounded.
TEST_P(RoundingRing, LosesNothingThatIsCarriedOn) {
  constexpr std::size_t kRounds = 40;
  for (const std::size_t members : {2U, 3U}) {
    RingOptions options = patient(quick(2000));
    options.codec = transport::parse_codec(GetParam());
    options.largest_chunk = 1024;
    TestRing<LoopbackWorld> ring(members, options);
    ring.make_all();
    ring.start_all();
    for (std::size_t rank = 0; rank < members; ++rank) {
      ring[rank].is_eager = ring[rank].carries_on = true;
    }
    ring.offer_all();
    ASSERT_TRUE(ring[0].wait_for_averages(kRounds));
    const auto averages = ring[0].averages.entries();
    std::vector<double> sums(options.values);
    std::vector<double> wanted(options.values);
    for (std::size_t round = 0; round < kRounds; ++round) {
      const auto mean = mean_of(ranks_to(members), averages[round].round, options).values;
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += averages[round].result.values[i];
        wanted[i] += mean[i];
      }
    }
    // No more than two roundings by each member, however many rounds there were.
    const double bound = 2.0 * bound_of(options.codec, members);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      ASSERT_NEAR(sums[i], wanted[i], bound) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, RoundingRing, ::testing::Values("fp16", "bf16", "int8"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Ring, RefusesMoreExactValuesThanThereAre) {
  RingOptions options = quick(10);
  options.exact = 11;
  TestRing<LoopbackWorld> ring(1, options);
  EXPECT_THROW(ring.make_all(), std::invalid_argument);
}

TEST(Ring, TrimsTheMean) {
  for (const std::size_t members : {2U, 3U, 4U, 7U}) {
    for (const std::size_t values : {0U, 1U, 5U, 3001U}) {
      SCOPED_TRACE(concat(members, " members, ", values, " values"));
      RingOptions options = quick(values);
      options.mean = Mean::kTrimmed;
      options.largest_chunk = 512;
      TestRing<LoopbackWorld> ring(members, options);
      ring.make_all();
      ring.start_all();
      ring.offer_all();
      std::vector<std::vector<float>> own;
      for (std::size_t rank = 0; rank < members; ++rank) {
        ASSERT_TRUE(ring[rank].wait_for_averages(1));
      }
      const Average first = ring[0].averages.entries()[0];
      for (std::size_t rank = 0; rank < members; ++rank) {
        own.push_back(contribution_of(rank, first.round, options).values);
        EXPECT_TRUE(same_bits(ring[rank].averages.entries()[0].result.values, first.result.values));
      }
      std::vector<float> wanted(values);
      for (std::size_t i = 0; i < values; ++i) {
        std::vector<double> column;
        for (const auto& mine : own) {
          column.push_back(mine[i]);
        }
        std::ranges::sort(column);
        const std::size_t cut = members >= 3 ? 1 : 0;
        double sum = 0.0;
        for (std::size_t k = cut; k < members - cut; ++k) {
          sum += column[k];
        }
        wanted[i] = static_cast<float>(sum / static_cast<double>(members - 2 * cut));
      }
      EXPECT_LE(largest_difference(first.result.values, wanted), 1e-6F);
    }
  }
}

TEST(Ring, SendsNoMoreThanItMust) {
  struct Case {
    const char* codec;
    double width;
  };
  for (const Case& each : {Case{"none", 4.0}, Case{"fp16", 2.0}, Case{"int8", 1.0}}) {
    for (const std::size_t members : {2U, 4U}) {
      RingOptions options = quick(100'000, 0);
      options.codec = transport::parse_codec(each.codec);
      TestRing<LoopbackWorld> ring(members, options);
      ring.make_all();
      ring.start_all();
      ring.offer_all();
      for (std::size_t rank = 0; rank < members; ++rank) {
        ASSERT_TRUE(ring[rank].wait_for_averages(1));
        const double most = 1.02 * 2.0 * static_cast<double>(members - 1) /
                            static_cast<double>(members) * 100'000 * each.width;
        EXPECT_LE(static_cast<double>(ring[rank].averages.entries()[0].nbytes_sent), most);
      }
    }
  }
}

TEST(Ring, AThousandRoundsLoseNobody) {
  TestRing<LoopbackWorld> ring(3, patient(quick(50)));
  ring.make_all();
  ring.start_all();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    ring[rank].is_eager = true;
  }
  ring.offer_all();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(ring[rank].wait_for_averages(1000));
  }
  const auto first = ring[0].averages.entries();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    ring[rank].is_eager = false;
    EXPECT_TRUE(ring[rank].abandoned.entries().empty());
    const auto averages = ring[rank].averages.entries();
    for (std::size_t round = 0; round < 1000; ++round) {
      ASSERT_EQ(averages[round].members.size(), 3U) << round;
      ASSERT_TRUE(same_bits(averages[round].result.values, first[round].result.values)) << round;
    }
  }
}

TEST(Ring, WaitsForALateStarterBeforeTheFirstRound) {
  TestRing<LoopbackWorld> ring(3, quick());
  ring.make(0);
  ring.make(2);
  ring.start_all();
  ring.offer_all();
  // Well over silence and patience: three notices and more.
  EXPECT_TRUE(ring[0].wait_for_notice("node_0 waits for node_1 to average (1 s)"));
  EXPECT_TRUE(ring[0].averages.entries().empty());
  ring.make(1);
  ring[1].ring().start();
  ring[1].ring().offer();
  EXPECT_TRUE(ring[0].wait_for_members(ring.names({0, 1, 2})));
}

TEST(Ring, WaitsForALateLeaderBeforeTheFirstRound) {
  TestRing<LoopbackWorld> ring(2, quick());
  ring.make(1);
  ring.start_all();
  ring.offer_all();
  EXPECT_TRUE(ring[1].wait_for_notice("node_1 waits for node_0 to average (1 s)"));
  ring.make(0);
  ring[0].ring().start();
  ring[0].ring().offer();
  EXPECT_TRUE(ring[1].wait_for_members(ring.names({0, 1})));
}

TEST(Ring, LeavesOutWhoIsNotReadyInTime) {
  TestRing<LoopbackWorld> ring(3, quick());
  ring.make_all();
  ring.start_all();
  ring[0].ring().offer();
  ring[2].ring().offer();
  EXPECT_TRUE(ring[0].wait_for_members(ring.names({0, 2})));
  EXPECT_TRUE(ring[2].wait_for_members(ring.names({0, 2})));
  ring.offer_all();
  EXPECT_TRUE(ring[1].wait_for_members(ring.names({0, 1, 2})));
}

TEST(Ring, LeavesOutWhoDoesNotContributeInTime) {
  TestRing<LoopbackWorld> ring(3, quick());
  ring.make_all();
  ring[0].is_slow = true;  // the leader itself
  ring.start_all();
  ring.offer_all();
  EXPECT_TRUE(ring[1].wait_for_members(ring.names({1, 2})));
  EXPECT_TRUE(ring[0].abandoned.wait_for([](const std::string&) { return true; }));
  EXPECT_TRUE(ring[0].averages.entries().empty());
  ring[0].is_slow = false;
  ring[1].ring().offer();
  ring[2].ring().offer();
  EXPECT_TRUE(ring[0].wait_for_members(ring.names({0, 1, 2})));
}

TEST(Ring, EndsWithARoundOfAll) {
  TestRing<LoopbackWorld> ring(3, quick());
  ring.make_all();
  ring.start_all();
  ring[0].ring().offer_final();
  ring[1].ring().offer();
  ring[2].ring().offer();
  // Whoever has ended is not waited for.
  EXPECT_TRUE(ring[1].wait_for_members(ring.names({1, 2})));
  EXPECT_TRUE(ring[0].wait_for_notice("node_0 waits for"));
  ring[1].ring().offer_final();
  ring[2].ring().offer_final();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(ring[rank].averages.wait_for([&](const Average& average) {
      return average.is_final && average.members == ring.names({0, 1, 2});
    }));
  }
}

TEST(Ring, ASurvivorAveragesAlone) {
  TestRing<LoopbackWorld> ring(3, quick());
  ring.make_all();
  ring.start_all();
  ring.offer_all();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(ring[rank].wait_for_averages(1));
  }
  ring.kill(0);
  ring.kill(1);
  ring[2].ring().offer_final();
  EXPECT_TRUE(ring[2].wait_for_members(ring.names({2})));
  const Average last = ring[2].averages.entries().back();
  EXPECT_TRUE(last.is_final);
  EXPECT_TRUE(same_bits(last.result.values, contribution_of(2, last.round, ring.options()).values));
}

TEST(Ring, ValuesThatAreNotFiniteAreRefused) {
  TestRing<LoopbackWorld> ring(3, quick());
  ring.make_all();
  ring[1].is_spoilt = true;
  ring.start_all();
  ring.offer_all();
  EXPECT_TRUE(ring[0].wait_for_members(ring.names({0, 2})));
  EXPECT_TRUE(ring[2].wait_for_members(ring.names({0, 2})));
  EXPECT_TRUE(ring[1].averages.entries().empty());
  // From here on it looks before it contributes, and no round is lost.
  const std::size_t abandoned = ring[0].abandoned.entries().size();
  ring.offer_all();
  EXPECT_TRUE(ring[0].wait_for_averages(2));
  EXPECT_EQ(ring[0].abandoned.entries().size(), abandoned);
  EXPECT_TRUE(ring[2].wait_for_notice("node_1 has values that are not finite"));
  EXPECT_TRUE(ring[1].withdrawn.wait_for([](bool is_withdrawn) { return is_withdrawn; }));
  ring[1].is_spoilt = false;
  ring.offer_all();
  EXPECT_TRUE(ring[1].wait_for_members(ring.names({0, 1, 2})));
}

TEST(Ring, AMemberThatWasStartedAnewTakesTheLatestFirst) {
  for (const std::size_t lost : {0U, 2U}) {
    TestRing<LoopbackWorld> ring(3, quick());
    ring.make_all();
    ring.start_all();
    ring.offer_all();
    for (std::size_t rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(ring[rank].wait_for_averages(1));
    }
    ring.kill(lost);
    ring.make(lost);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      ring[rank].is_eager = true;
    }
    ring[lost].ring().start();
    ring.offer_all();
    ASSERT_TRUE(ring[lost].latest.wait_for([](const Average&) { return true; }));
    const Average latest = ring[lost].latest.entries()[0];
    EXPECT_TRUE(ring[1].averages.wait_for([&](const Average& average) {
      return average.round == latest.round &&
             same_bits(latest.result.values, average.result.values) &&
             latest.result.maxima == average.result.maxima;
    }));
    EXPECT_TRUE(ring[lost].wait_for_members(ring.names({0, 1, 2})));
  }
}

TEST(Ring, WhoMissedARoundTakesItsResultWhereThatIsTheBase) {
  RingOptions options = quick();
  options.needs_base = true;
  TestRing<LoopbackWorld> ring(3, options);
  ring.make_all();
  ring.start_all();
  ring[0].ring().offer();
  ring[1].ring().offer();
  ASSERT_TRUE(ring[0].wait_for_members(ring.names({0, 1})));
  ring.offer_all();
  ASSERT_TRUE(ring[2].wait_for_members(ring.names({0, 1, 2})));
  ASSERT_EQ(ring[2].latest.entries().size(), 1U);
  EXPECT_EQ(ring[2].latest.entries()[0].round, ring[0].averages.entries()[0].round);
}

TEST(Ring, AMemberThatFellSilentComesBack) {
  RingOptions options = quick();
  options.silence = Milliseconds(300);
  TestRing<LoopbackWorld> ring(3, options);
  ring.make_all();
  ring.start_all();
  ring.offer_all();
  ASSERT_TRUE(ring[0].wait_for_averages(1));
  ring[0].tap().mute();  // the leader
  ring[1].ring().offer();
  ring[2].ring().offer();
  EXPECT_TRUE(ring[2].wait_for_notice("node_0 is lost; averaging goes on without it"));
  EXPECT_TRUE(ring[2].wait_for_members(ring.names({1, 2})));
  ring[0].tap().mute(false);
  EXPECT_TRUE(ring[2].wait_for_notice("node_0 is back"));
  ring.offer_all();
  EXPECT_TRUE(ring[0].wait_for_members(ring.names({0, 1, 2}), 2));
}

TEST(Ring, FetchesOnRequest) {
  TestRing<GrpcWorld> ring(2, quick());
  ring.make_all();
  ring.start_all();
  ring[1].ring().fetch_latest();
  ASSERT_TRUE(ring[1].latest.wait_for([](const Average&) { return true; }));
  EXPECT_TRUE(same_bits(ring[1].latest.entries()[0].result.values,
                        contribution_of(0, 0, ring.options()).values));
}

TEST(Ring, WhoLooksForValuesItselfIsNotAskedForThem) {
  TestRing<LoopbackWorld> ring(3, quick());
  for (const std::size_t rank : {1U, 2U}) {
    ring.make(rank);
    ring[rank].ring().fetch_latest();
    ring[rank].ring().start();
  }
  ring.make(0);
  ring[0].ring().start();
  for (const std::size_t rank : {1U, 2U}) {
    ASSERT_TRUE(ring[rank].latest.wait_for([](const Average&) { return true; })) << rank;
    EXPECT_TRUE(ring[rank].wanted_first.entries().empty());
    // Who has them already may be asked.
    const std::vector<float> values = ring[rank].latest.entries()[0].result.values;
    EXPECT_TRUE(same_bits(values, contribution_of(0, 0, ring.options()).values) ||
                same_bits(values, contribution_of(3 - rank, 0, ring.options()).values));
  }
}

// A link on which a large message takes longer than anybody waits.
TEST(Ring, AveragesOverALinkThatIsSlow) {
  RingOptions options = quick(400'000);
  options.silence = Milliseconds(500);
  options.patience = Milliseconds(20'000);
  TestRing<LoopbackWorld> ring(2, options);
  ring.make(0);
  ring.make(1, [](const std::string&, const Message& message) {
    return message.fields.size() != 5 || message.tensors[0].bytes.size() <= 200'000;
  });
  ring.start_all();
  for (const std::size_t rank : {0U, 1U}) {
    ring[rank].is_eager = true;
  }
  ring.offer_all();
  EXPECT_TRUE(ring[0].wait_for_members(ring.names({0, 1})));
  EXPECT_TRUE(ring[1].wait_for_members(ring.names({0, 1})));
  for (const std::size_t rank : {0U, 1U}) {
    for (const Average& average : ring[rank].averages.entries()) {
      EXPECT_EQ(average.members.size(), 2U) << "a round without the other";
    }
  }
}

TEST(Ring, DoesNotWaitForThoseWhoMayHaveEnded) {
  for (const std::size_t rank : {0U, 1U}) {
    RingOptions options = quick();
    options.waits_for_all = false;
    TestRing<LoopbackWorld> ring(2, options);
    ring.make(rank);
    ring.start_all();
    ring.offer_all();
    EXPECT_TRUE(ring[rank].wait_for_members(ring.names({rank}))) << rank;
    ring.offer_all(true);
    EXPECT_TRUE(ring[rank].wait_for_averages(2)) << rank;
  }
}

TEST(Ring, StopsWithoutWaitingForAnybody) {
  TestRing<GrpcWorld> ring(3, quick());
  ring.make(0);
  ring.make(1);
  ring.start_all();
  ring.offer_all();
  const auto start = std::chrono::steady_clock::now();
  ring.kill(0);
  ring.kill(1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(Ring, RefusesOptionsThatCannotBe) {
  TestRing<LoopbackWorld> ring(2, quick());
  ring.make_all();
  RingOptions options = ring.options();
  transport::TransportOptions named{.name = "other"};
  const auto transport =
      transport::make_loopback_transport(transport::make_loopback_network(), "x", named);
  options.rank = 2;
  EXPECT_THROW(Ring(options, *transport, ring[0]), std::invalid_argument);
  options.rank = 0;
  options.members[1].name = "node_0";
  EXPECT_THROW(Ring(options, *transport, ring[0]), std::invalid_argument);
  EXPECT_THROW(ring[0].ring().contribute(1, Contribution{.values = {1.0F}}), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest::reduce
