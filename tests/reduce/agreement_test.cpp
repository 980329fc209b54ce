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

// A fault at one message, or at two: survivors agree, and the next round is theirs.
void run_with(std::size_t members, const std::vector<Simulation::Order>& orders, unsigned seed,
              bool is_loss_seen) {
  std::string what = "seed " + std::to_string(seed);
  for (const auto& order : orders) {
    what += " fault " + std::to_string(static_cast<int>(order.fault)) + " at " +
            std::to_string(order.message);
  }
  SCOPED_TRACE(what);
  Simulation world(ring_of(members), seed);
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
  ASSERT_TRUE(world.run_until(are_through)) << what << ": no first round";
  expect_agreement(world, what);
  const auto count = [&](std::size_t rank) { return world.outcomes(rank).size(); };
  std::vector<std::size_t> before;
  for (std::size_t rank = 0; rank < members; ++rank) {
    before.push_back(count(rank));
  }
  ASSERT_TRUE(world.run_until([&] {
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
}

std::size_t messages_of_two_rounds(std::size_t members) {
  Simulation world(ring_of(members));
  world.start_all();
  world.offer_all();
  EXPECT_TRUE(world.run_until([&] { return have_all(world, 1); }));
  world.offer_all();
  EXPECT_TRUE(world.run_until([&] { return have_all(world, 2); }));
  return world.messages();
}

constexpr Fault kFaults[]{Fault::kKillSender, Fault::kKillReceiver, Fault::kMuteSender,
                          Fault::kDrop, Fault::kRestartSender};

TEST(Agreement, SurvivesEverySingleFault) {
  for (const std::size_t members : {2U, 3U, 4U}) {
    const std::size_t messages = messages_of_two_rounds(members);
    for (const Fault fault : kFaults) {
      for (std::size_t message = 0; message < messages; ++message) {
        run_with(members, {{message, fault}}, 0, message % 2 == 0);
        if (HasFatalFailure()) {
          return;
        }
      }
    }
  }
}

TEST(Agreement, SurvivesPairsOfFaults) {
  constexpr unsigned kSeed = 11;
  constexpr int kPairs = 6000;
  std::mt19937 random(kSeed);
  const std::size_t members = 4;
  const std::size_t messages = messages_of_two_rounds(members);
  for (int pair = 0; pair < kPairs; ++pair) {
    const auto draw = [&] {
      return Simulation::Order{random() % messages, kFaults[random() % std::size(kFaults)]};
    };
    run_with(members, {draw(), draw()}, static_cast<unsigned>(random() % 1000), pair % 2 == 0);
    if (HasFatalFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace ravnest::reduce
