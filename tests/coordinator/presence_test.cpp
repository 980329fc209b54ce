#include <gtest/gtest.h>

#include <limits>

#include "tests/coordinator/world.h"

namespace ravnest::coordinator {
namespace {

Presence presence(const World& world, const MemberId& id) {
  return world.state.live.providers.at(id).presence;
}

TEST(Presence, SilenceOfTwoSecondsShowsAndOfFiveLoses) {
  World world;
  world.join("a");
  world.wait(Milliseconds{1500}, {});
  EXPECT_EQ(presence(world, "a"), Presence::kPresent);
  world.wait(Milliseconds{500}, {});
  EXPECT_EQ(presence(world, "a"), Presence::kSilent);
  world.does(Beat{"a", world.session("a")});
  EXPECT_EQ(presence(world, "a"), Presence::kPresent);
  world.wait(Milliseconds{4500}, {});
  EXPECT_EQ(presence(world, "a"), Presence::kSilent);
  world.wait(Milliseconds{500}, {});
  EXPECT_EQ(presence(world, "a"), Presence::kAway);
}

// Peers give up a server that does not answer for 15 s.
TEST(Presence, WhoGaveUpAServerThatWasStoppedIsAwaited) {
  for (const bool is_tick_first : {false, true}) {
    World world;
    const JobId job = world.run({{"a", "b"}});
    world.join("spare");
    const Epoch epoch = world.cluster(job).epoch;
    world.pass(Milliseconds{20'000});
    if (is_tick_first) {
      world.does(Tick{});
      world.pass(Milliseconds{100});
    }
    for (const char* id : {"a", "b", "spare"}) {
      world.does(Closed{id, world.session(id)});
    }
    EXPECT_EQ(presence(world, "a"), Presence::kAwaited);
    world.wait(Milliseconds{1000}, {});
    for (const char* id : {"a", "b"}) {
      Join back = world.join_of(id);
      back.holds = epoch;
      world.does(back);
    }
    EXPECT_EQ(world.cluster(job).epoch, epoch);
    EXPECT_EQ(world.job(job).phase, Phase::kRunning);
    EXPECT_EQ(world.state.live.providers.at("a").strikes, 0);
  }
}

TEST(Presence, WhoDoesNotComeBackAfterThatIsLostWithoutAStrike) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.pass(Milliseconds{20'000});
  world.does(Closed{"b", world.session("b")});
  world.wait(kReturnTime - Milliseconds{500}, {"a", "spare"});
  EXPECT_EQ(presence(world, "b"), Presence::kAwaited);
  world.wait(Milliseconds{1000}, {"a", "spare"});
  EXPECT_EQ(presence(world, "b"), Presence::kAway);
  EXPECT_EQ(world.cluster(job).places[1].provider, "spare");
  EXPECT_EQ(world.state.live.providers.at("b").strikes, 0);
  world.does(Closed{"spare", world.session("spare")});
  EXPECT_EQ(world.state.live.providers.at("spare").strikes, 1) << "that was long ago";
}

TEST(Presence, ABeatBeforeTheFirstTickAfterASleepIsOfNow) {
  World world;
  world.join("a");
  world.pass(Milliseconds{20'000});
  world.does(Beat{"a", world.session("a")});
  world.does(Tick{});
  world.wait(Milliseconds{5000}, {});
  EXPECT_EQ(presence(world, "a"), Presence::kAway);
}

TEST(Presence, AClosedConnectionLosesAtOnce) {
  World world;
  const std::int64_t session = world.join("a");
  world.does(Closed{"a", session});
  EXPECT_EQ(presence(world, "a"), Presence::kAway);
}

TEST(Presence, WhoWasDeclaredLostMustJoinAnew) {
  World world;
  const std::int64_t session = world.join("a");
  world.wait(Milliseconds{5000}, {});
  const Decision late = world.tell(Beat{"a", session});
  EXPECT_FALSE(late.is_accepted);
  ASSERT_EQ(late.actions.size(), 1U);
  EXPECT_EQ(std::get<CloseSession>(late.actions[0]).session, session);
  EXPECT_NE(world.join("a"), session);
  EXPECT_EQ(presence(world, "a"), Presence::kPresent);
  world.refuses(Closed{"a", session});
  EXPECT_EQ(presence(world, "a"), Presence::kPresent);
}

// However the ticks fall: one every 250 ms.
TEST(Presence, SilenceIsALossWithinFiveSeconds) {
  for (Milliseconds offset{0}; offset < Milliseconds{250}; offset += Milliseconds{10}) {
    World world;
    world.join("a");
    world.pass(offset);
    for (int i = 0; world.now.steady - world.state.live.providers.at("a").heard <=
                    Milliseconds{5000} - Milliseconds{250};
         ++i) {
      world.pass(Milliseconds{250});
      world.does(Tick{});
      ASSERT_LT(i, 100);
    }
    EXPECT_EQ(presence(world, "a"), Presence::kAway) << offset.count();
  }
}

TEST(Presence, AServerThatWasStoppedBlamesNobody) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.wait(Milliseconds{1000}, {"a", "b"});
  world.pass(Milliseconds{60'000});
  world.does(Tick{});
  EXPECT_EQ(world.lineup(job), (std::vector<MemberId>{"a", "b"}));
  world.wait(Milliseconds{4000}, {"b"});
  EXPECT_EQ(presence(world, "a"), Presence::kSilent);
  world.wait(Milliseconds{1000}, {"b"});
  EXPECT_EQ(presence(world, "a"), Presence::kAway);
}

TEST(Presence, SessionsOfAnotherBootAreRefused) {
  World world;
  const std::int64_t session = world.join("a");
  world.restart_server();
  world.refuses(Beat{"a", session});
  EXPECT_GT(world.join("a"), session);
}

TEST(Presence, ASecondConnectionTakesThePlaceOfTheFirst) {
  World world;
  const std::int64_t first = world.join("a");
  const Decision second = world.does(world.join_of("a"));
  EXPECT_EQ(std::get<CloseSession>(second.actions[0]).session, first);
  world.refuses(Beat{"a", first});
  world.does(Beat{"a", second.session});
}

TEST(Presence, MeasurementsThatCannotBeAreRefused) {
  World world;
  world.enrol("a");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refuses = [&](auto set) {
    Join join = world.join_of("a");
    set(join);
    world.refuses(join);
  };
  refuses([&](Join& join) { join.measured.ram_gb = nan; });
  refuses([](Join& join) { join.measured.ram_gb = 0.0; });
  refuses([](Join& join) { join.measured.ram_gb = 1e30; });
  refuses([](Join& join) { join.measured.gflops = -1.0; });
  refuses([](Join& join) { join.measured.gflops = 1e-200; });  // no time for it is finite
  refuses([](Join& join) { join.measured.mbps = 5e-324; });
  refuses([](Join& join) { join.measured.links[join.provider] = {.mbps = 1.0}; });
  refuses([](Join& join) { join.measured.mbps = std::numeric_limits<double>::infinity(); });
  refuses([](Join& join) { join.measured.threads = 0; });
  refuses([](Join& join) { join.measured.links["nobody"] = {.mbps = 1.0}; });
  refuses([](Join& join) { join.address.clear(); });
  refuses([](Join& join) { join.address = std::string(1000, 'a'); });
  refuses([](Join& join) { join.provider = "nobody"; });
  Join relayed = world.join_of("a");
  relayed.address.clear();
  relayed.is_relayed = true;
  world.does(relayed);
}

TEST(Presence, TheThirdFailureBansAndEveryFurtherOneTwiceAsLong) {
  World world;
  world.run({{"a"}});
  std::vector<std::int64_t> bans;
  for (int strike = 1; strike <= 10; ++strike) {
    ASSERT_TRUE(world.state.durable.seats.contains("a"));
    world.does(Closed{"a", world.session("a")});
    world.join("a");
    const Milliseconds until = world.state.live.providers.at("a").banned_until;
    if (until > world.now.steady) {
      EXPECT_FALSE(world.state.durable.seats.contains("a"));
      bans.push_back((until - world.now.steady).count() / 1000);
      world.wait(until - world.now.steady, {"a"});
    }
  }
  EXPECT_EQ(bans, (std::vector<std::int64_t>{15, 30, 60, 120, 240, 480, 600, 600}));
}

TEST(Presence, AJobThatEndsWellForgivesFailures) {
  World world;
  world.run({{"a"}});
  world.does(Closed{"a", world.session("a")});
  world.join("a");
  EXPECT_EQ(world.state.live.providers.at("a").strikes, 1);
  world.ready({"a"});
  world.does(world.result_of("a"));
  EXPECT_EQ(world.state.live.providers.at("a").strikes, 0);
}

TEST(Presence, LinesHaveAnEnd) {
  World world;
  for (std::size_t i = 0; i < kMostLines; ++i) {
    world.join("a");
  }
  EXPECT_EQ(world.state.live.lines.size(), kMostLines);
}

}  // namespace
}  // namespace ravnest::coordinator
