#include <gtest/gtest.h>

#include "tests/reduce/simulation.h"

namespace ravnest::reduce {
namespace {

using Fault = Simulation::Fault;

RingOptions ring_of(std::size_t members, std::size_t values = 7) {
  RingOptions options{.values = values, .maxima = 2, .largest_chunk = 8};
  for (std::size_t rank = 0; rank < members; ++rank) {
    options.members.push_back({.name = "node_" + std::to_string(rank)});
  }
  return options;
}

RingOptions from_a_base(RingOptions options) {
  options.needs_base = true;
  return options;
}

RingOptions in_eight_bits(RingOptions options) {
  options.codec = transport::parse_codec("int8");
  return options;
}

RingOptions trimmed(RingOptions options) {
  options.mean = Mean::kTrimmed;
  return options;
}

// Rings that move or keep their values in another way.
std::vector<RingOptions> other_rings_of(std::size_t members) {
  const RingOptions plain = ring_of(members);
  return {from_a_base(plain), from_a_base(in_eight_bits(plain)), trimmed(plain),
          from_a_base(trimmed(in_eight_bits(plain)))};
}

// Every round that two members applied was the same for both, and who took part and lives applied
// it, or nobody did.
void expect_agreement(const Simulation& world, const std::string& what) {
  for (std::size_t rank = 0; rank < world.size(); ++rank) {
    if (!world.is_alive(rank) || world.is_mute(rank)) {
      continue;
    }
    for (const auto& outcome : world.outcomes(rank)) {
      for (const std::size_t other : outcome.members) {
        if (!world.is_alive(other) || world.is_mute(other) || world.is_new(other) ||
            world.round(other) == outcome.round) {  // it is about to hear of it
          continue;
        }
        const auto& theirs = world.outcomes(other);
        const auto found = std::ranges::find_if(
            theirs, [&](const auto& their) { return their.round == outcome.round; });
        ASSERT_NE(found, theirs.end()) << what << ": member " << rank << " applied round "
                                       << outcome.round << ", member " << other << " did not";
        ASSERT_EQ(*found, outcome) << what;
      }
    }
  }
}

bool have_all(const Simulation& world, std::size_t outcomes) {
  for (std::size_t rank = 0; rank < world.size(); ++rank) {
    if (world.is_alive(rank) && !world.is_mute(rank) && world.outcomes(rank).size() < outcomes) {
      return false;
    }
  }
  return true;
}

TEST(Agreement, AllTakePart) {
  for (std::size_t members = 1; members <= 9; ++members) {
    Simulation world(ring_of(members));
    world.start_all();
    world.offer_all();
    ASSERT_TRUE(world.run_until([&] { return have_all(world, 1); })) << members;
    for (std::size_t rank = 0; rank < members; ++rank) {
      EXPECT_EQ(world.outcomes(rank)[0].members.size(), members);
      EXPECT_EQ(world.outcomes(rank)[0], world.outcomes(0)[0]);
      EXPECT_TRUE(world.abandoned(rank).empty());
    }
  }
}

TEST(Agreement, AThousandRoundsLoseNobody) {
  Simulation world(ring_of(3), 5);
  world.start_all();
  for (std::size_t round = 1; round <= 1000; ++round) {
    world.offer_all();
    ASSERT_TRUE(world.run_until([&] { return have_all(world, round); })) << round;
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(world.abandoned(rank).empty());
    EXPECT_EQ(world.outcomes(rank).back().members.size(), 3U);
    EXPECT_TRUE(world.notices(rank).empty());
  }
}

// A fault at one message, or at two: survivors agree, and the next round is theirs. Returns how
// many there were: after the first there may be no such message any more.
std::size_t run_with(const RingOptions& options, const std::vector<Simulation::Order>& orders,
                     unsigned seed, bool is_loss_seen) {
  const std::size_t members = options.members.size();
  std::string what = "seed " + std::to_string(seed);
  for (const auto& order : orders) {
    what += " fault " + std::to_string(static_cast<int>(order.fault)) + " at " +
            std::to_string(order.message);
  }
  SCOPED_TRACE(what);
  Simulation world(options, seed);
  world.is_loss_seen = is_loss_seen;
  world.is_eager = true;
  for (const auto& order : orders) {
    world.order(order);
  }
  world.start_all();
  world.offer_all();
  const auto are_through = [&] {
    for (std::size_t rank = 0; rank < members; ++rank) {
      const bool is_there = world.is_alive(rank) && !world.is_mute(rank);
      if (is_there && !world.is_new(rank) && world.outcomes(rank).empty()) {
        return false;
      }
    }
    return true;
  };
  EXPECT_TRUE(world.run_until(are_through)) << what << ": no first round";
  expect_agreement(world, what);
  const auto are_over = [&] { return world.faults() >= orders.size(); };
  static_cast<void>(world.run_until(are_over, std::chrono::seconds(10)));
  const auto count = [&](std::size_t rank) { return world.outcomes(rank).size(); };
  std::vector<std::size_t> before;
  for (std::size_t rank = 0; rank < members; ++rank) {
    before.push_back(count(rank));
  }
  EXPECT_TRUE(world.run_until([&] {
    for (std::size_t rank = 0; rank < members; ++rank) {
      const bool is_there = world.is_alive(rank) && !world.is_mute(rank);
      if (is_there && count(rank) <= before[rank]) {
        return false;
      }
    }
    return true;
  })) << what
      << ": no second round";
  expect_agreement(world, what);
  return world.faults();
}

std::size_t messages_of_two_rounds(const RingOptions& options) {
  Simulation world(options);
  world.start_all();
  world.offer_all();
  EXPECT_TRUE(world.run_until([&] { return have_all(world, 1); }));
  world.offer_all();
  EXPECT_TRUE(world.run_until([&] { return have_all(world, 2); }));
  return world.messages();
}

constexpr Fault kFaults[]{Fault::kKillSender, Fault::kKillReceiver, Fault::kMuteSender,
                          Fault::kDrop, Fault::kRestartSender};

void run_with_every_single_fault(const RingOptions& options) {
  const std::size_t messages = messages_of_two_rounds(options);
  for (const Fault fault : kFaults) {
    for (std::size_t message = 0; message < messages; ++message) {
      EXPECT_EQ(run_with(options, {{message, fault}}, 0, message % 2 == 0), 1U) << message;
      if (testing::Test::HasFailure()) {
        return;
      }
    }
  }
}

TEST(Agreement, SurvivesEverySingleFault) {
  for (const std::size_t members : {2U, 3U, 4U}) {
    run_with_every_single_fault(ring_of(members));
  }
}

TEST(Agreement, SurvivesEverySingleFaultHoweverValuesTravel) {
  for (const RingOptions& options : other_rings_of(3)) {
    run_with_every_single_fault(options);
  }
}

TEST(Agreement, WhoWasAwayTakesTheBaseFromAnother) {
  Simulation world(from_a_base(ring_of(3)));
  world.start_all();
  world.offer_all();
  ASSERT_TRUE(world.run_until([&] { return have_all(world, 1); }));
  world.restart(2);
  ASSERT_TRUE(world.run_until([&] { return world.fetches(2) > 0; }));
  world.offer_all();
  ASSERT_TRUE(world.run_until([&] { return world.outcomes(0).size() == 2; }));
  ASSERT_TRUE(world.run_until([&] { return world.outcomes(2).size() == 1; }));
  EXPECT_EQ(world.outcomes(0).back().members.size(), 3U);
  EXPECT_EQ(world.outcomes(2).back(), world.outcomes(0).back());
}

TEST(Agreement, WhoWasLostTakesTheLatestBeforeItAveragesAgain) {
  for (const std::size_t lost : {0U, 2U}) {
    Simulation world(ring_of(3));
    world.start_all();
    world.offer_all();
    ASSERT_TRUE(world.run_until([&] { return have_all(world, 1); }));
    world.stop(lost);
    for (std::size_t rounds = 2; rounds <= 4; ++rounds) {
      for (std::size_t rank = 0; rank < 3; ++rank) {
        rank == lost ? void() : world.offer(rank);
      }
      ASSERT_TRUE(world.run_until([&] { return world.outcomes(1).size() == rounds; }));
    }
    world.stop(lost, false);
    world.run_for(std::chrono::seconds(2));
    world.offer_all();
    ASSERT_TRUE(world.run_until([&] { return world.outcomes(lost).size() == 2; }));
    EXPECT_EQ(world.fetches(lost), 1U);
    EXPECT_EQ(world.fetches(1), 0U);
    EXPECT_EQ(world.outcomes(lost).back().members.size(), 3U);
    EXPECT_EQ(world.outcomes(lost).back(), world.outcomes(1).back());
  }
}

// Each half has gone on by itself, and has learned.
TEST(Agreement, TwoHalvesThatMeetTakeNothingFromEachOther) {
  Simulation world(ring_of(4));
  world.start_all();
  world.offer_all();
  ASSERT_TRUE(world.run_until([&] { return have_all(world, 1); }));
  world.divide({0, 1});
  const auto have = [&](std::size_t rounds) {
    return [&world, rounds] { return have_all(world, rounds); };
  };
  for (std::size_t rounds = 2; rounds <= 3; ++rounds) {
    world.offer_all();
    ASSERT_TRUE(world.run_until(have(rounds))) << rounds;
  }
  world.divide({});
  world.run_for(std::chrono::seconds(10));
  world.offer_all();
  ASSERT_TRUE(world.run_until(have(4)));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(world.fetches(rank), 0U) << rank;
    EXPECT_EQ(world.outcomes(rank).back().members.size(), 4U) << rank;
  }
}

// It ends first; another goes on alone, and says in the middle of a round that it ends, too.
TEST(Agreement, WhoEndsFirstCatchesUpWithARoundThatWasUnderWay) {
  for (const std::size_t first : {0U, 1U}) {
    const std::size_t second = 1 - first;
    for (unsigned seed = 1; seed <= 60; ++seed) {
      Simulation world(from_a_base(ring_of(2)), seed);
      world.start_all();
      world.offer_all();
      ASSERT_TRUE(world.run_until([&] { return have_all(world, 1); }));
      world.offer(first, true);
      for (std::size_t rounds = 2; rounds <= 3; ++rounds) {
        world.offer(second);
        ASSERT_TRUE(world.run_until([&] { return world.outcomes(second).size() == rounds; }));
      }
      world.offer(second);
      const std::size_t messages = world.messages() + seed % 12;
      ASSERT_TRUE(world.run_until([&] { return world.messages() >= messages; }));
      world.offer(second, true);
      ASSERT_TRUE(world.run_until([&] {
        return world.outcomes(first).back().is_final && world.outcomes(second).back().is_final;
      })) << "member "
          << first << " ended first, seed " << seed;
      EXPECT_EQ(world.outcomes(first).back(), world.outcomes(second).back());
      EXPECT_EQ(world.outcomes(first).back().members.size(), 2U);
    }
  }
}

TEST(Agreement, TheLastRoundWaitsForWhoIsSlow) {
  for (const std::size_t slow : {0U, 2U}) {
    Simulation world(ring_of(3));
    world.start_all();
    world.offer_all();
    ASSERT_TRUE(world.run_until([&] { return have_all(world, 1); }));
    world.choke(slow);
    world.offer_all(true);
    ASSERT_TRUE(world.run_until([&] { return world.abandoned(1).size() >= 5; }));
    EXPECT_TRUE(have_all(world, 1));
    world.choke(slow, false);
    ASSERT_TRUE(world.run_until([&] { return have_all(world, 2); }));
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(world.outcomes(rank).back().is_final);
      EXPECT_EQ(world.outcomes(rank).size(), 2U);
      EXPECT_EQ(world.outcomes(rank).back().members.size(), 3U);
    }
  }
}

// As where the ports that values travel by are closed: its words are heard, and no more.
TEST(Agreement, TheLastRoundGoesOnWithoutWhoseValuesNeverArrive) {
  for (const std::size_t mute : {0U, 1U, 2U}) {
    Simulation world(ring_of(3));
    world.choke(mute);
    world.start_all();
    world.offer_all(true);
    ASSERT_TRUE(world.run_until([&] { return have_all(world, 1); }, std::chrono::minutes(10)));
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(world.outcomes(rank).back().is_final);
      EXPECT_EQ(world.outcomes(rank).back().members.size(), rank == mute ? 1U : 2U);
    }
    expect_agreement(world, "the last round");
  }
}

TEST(Agreement, SurvivesPairsOfFaults) {
  constexpr unsigned kSeed = 11;
  constexpr int kPairs = 6000;
  int both = 0;
  std::mt19937 random(kSeed);
  std::vector<RingOptions> rings = other_rings_of(4);
  rings.push_back(ring_of(4));
  std::vector<std::size_t> messages;
  std::ranges::transform(rings, std::back_inserter(messages), messages_of_two_rounds);
  for (int pair = 0; pair < kPairs; ++pair) {
    const std::size_t ring = random() % rings.size();
    const auto draw = [&] {
      return Simulation::Order{random() % messages[ring], kFaults[random() % std::size(kFaults)]};
    };
    const std::size_t faults = run_with(rings[ring], {draw(), draw()},
                                        static_cast<unsigned>(random() % 1000), pair % 2 == 0);
    both += faults == 2 ? 1 : 0;
    if (HasFailure()) {
      return;
    }
  }
  EXPECT_GT(both, kPairs * 3 / 4);
}

}  // namespace
}  // namespace ravnest::reduce
