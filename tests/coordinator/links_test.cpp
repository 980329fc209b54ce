// What providers know of the links between them.

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ravnest/coordinator/view.h"
#include "tests/coordinator/world.h"

namespace ravnest::coordinator {
namespace {

constexpr planner::Link kLan{.mbps = 900.0, .latency_ms = 0.5};

std::string probe_of(const MemberId& id) { return sha256_of(id).substr(0, 32); }

Measurable measurable(const World& world, const MemberId& id) {
  return {.provider = id, .session = world.session(id), .probe = probe_of(id)};
}

LinksMeasured links(const World& world, const MemberId& id,
                    std::map<MemberId, planner::Link> measured) {
  return {.provider = id, .session = world.session(id), .links = std::move(measured)};
}

// Whom it is to measure.
std::set<MemberId> asked(const Decision& decision) {
  std::set<MemberId> peers;
  for (const Action& action : decision.actions) {
    if (const auto* each = std::get_if<MeasureLinks>(&action)) {
      peers.insert(each->peers.begin(), each->peers.end());
    }
  }
  return peers;
}

const std::map<MemberId, planner::Link>& links_of(const World& world, const MemberId& id) {
  return world.state.live.providers.at(id).measured.links;
}

TEST(Links, ANewcomerMeasuresThoseWhoAreThere) {
  World world;
  world.join_all({"a", "b", "c"});
  EXPECT_TRUE(asked(world.does(measurable(world, "a"))).empty()) << "nobody else can be measured";
  EXPECT_EQ(asked(world.does(measurable(world, "b"))), (std::set<MemberId>{"a"}));
  EXPECT_EQ(asked(world.does(measurable(world, "c"))), (std::set<MemberId>{"a", "b"}));
  EXPECT_EQ(world.done<MeasureLinks>().back().session, world.session("c"));
}

TEST(Links, WhatWasMeasuredIsKeptAndNotAskedForAgain) {
  World world;
  world.join_all({"a", "b", "c"});
  world.does(measurable(world, "a"));
  world.does(measurable(world, "b"));
  EXPECT_NE(world.does(links(world, "b", {{"a", kLan}})).reason, "");
  EXPECT_EQ(links_of(world, "b").at("a"), kLan);
  EXPECT_TRUE(asked(world.does(measurable(world, "b"))).empty());
  EXPECT_FALSE(asked(world.does(measurable(world, "a"))).contains("b")) << "either way";
  world.does(links(world, "b", {{"c", kLan}, {"a", {.mbps = 10.0, .latency_ms = 2.0}}}));
  EXPECT_EQ(links_of(world, "b").size(), 2U);
  EXPECT_EQ(links_of(world, "b").at("a").mbps, 10.0) << "the last counts";
}

TEST(Links, WhoHasAStageOrIsAboutToIsLeftAlone) {
  World world;
  world.join_all({"a", "b"});
  world.does(measurable(world, "a"));
  const JobId job = world.submit();  // both are reserved while the plan is made
  EXPECT_TRUE(asked(world.does(measurable(world, "b"))).empty());
  world.plan({{"a", "b"}});
  world.join("c");
  EXPECT_TRUE(asked(world.does(measurable(world, "c"))).empty());
  world.does(CancelJob{job, "rita"});
  EXPECT_TRUE(asked(world.does(measurable(world, "c"))).empty()) << "their secrets were of before";
  EXPECT_EQ(asked(world.does(measurable(world, "a"))), (std::set<MemberId>{"c"}));
  EXPECT_EQ(asked(world.does(measurable(world, "b"))), (std::set<MemberId>{"a", "c"}));
}

TEST(Links, WhoIsRelayedGonePausedOrLeavingIsNotMeasured) {
  World world;
  world.join_all({"gone", "leaving", "paused", "z"});
  world.enrol("relayed");
  Join relayed = world.join_of("relayed");
  relayed.is_relayed = true;
  world.does(relayed);
  for (const MemberId id : {"gone", "leaving", "paused", "relayed"}) {
    world.does(measurable(world, id));
  }
  world.does(Closed{"gone", world.session("gone")});
  world.does(Leave{"leaving", world.session("leaving")});
  world.does(PauseProvider{"paused"});
  EXPECT_TRUE(asked(world.does(measurable(world, "z"))).empty());
  EXPECT_TRUE(asked(world.does(measurable(world, "relayed"))).empty());
}

TEST(Links, AFewAtATimeAndAllInTheEnd) {
  World world;
  std::set<MemberId> others;
  for (int i = 0; i < 40; ++i) {
    const MemberId id = concat("p", 10 + i);
    world.join(id);
    world.does(measurable(world, id));
    others.insert(id);
  }
  world.join("new");
  for (const std::size_t expected : {16U, 16U, 8U, 0U}) {
    const std::set<MemberId> peers = asked(world.does(measurable(world, "new")));
    EXPECT_EQ(peers.size(), expected);
    for (const MemberId& peer : peers) {
      world.does(links(world, "new", {{peer, kLan}}));
    }
  }
  EXPECT_EQ(links_of(world, "new").size(), others.size());
}

// Some may never answer: where it begins is drawn with the secret.
TEST(Links, WhoIsFirstDependsOnTheSecret) {
  World world;
  for (int i = 0; i < 40; ++i) {
    const MemberId id = concat(i % 10, "-", i);
    world.join(id);
    world.does(measurable(world, id));
  }
  world.join("new");
  std::set<MemberId> seen;
  for (const char digit : {'0', '3', '6', '9', 'f'}) {
    Measurable event = measurable(world, "new");
    event.probe = std::string(32, digit);
    seen.merge(asked(world.does(event)));
  }
  EXPECT_EQ(seen.size(), 40U);
}

TEST(Links, WhatCannotBeIsRefusedAndChangesNothing) {
  World world;
  world.join_all({"a", "b"});
  const auto refuses = [&](std::map<MemberId, planner::Link> measured) {
    world.refuses(links(world, "a", std::move(measured)));
    EXPECT_TRUE(links_of(world, "a").empty());
  };
  refuses({{"b", {.mbps = 0.0, .latency_ms = 1.0}}});
  refuses({{"b", {.mbps = -1.0, .latency_ms = 1.0}}});
  refuses({{"b", {.mbps = 5e-324, .latency_ms = 1.0}}});  // a time that is not finite
  refuses({{"b", {.mbps = 1e30, .latency_ms = 1.0}}});
  refuses({{"b", {.mbps = std::numeric_limits<double>::quiet_NaN(), .latency_ms = 1.0}}});
  refuses({{"b", {.mbps = 1.0, .latency_ms = std::numeric_limits<double>::infinity()}}});
  refuses({{"b", {.mbps = 1.0, .latency_ms = -1.0}}});
  refuses({{"nobody", kLan}});
  refuses({{"b", kLan}, {"nobody", kLan}});
  refuses({{"a", kLan}});
  for (const std::string& wrong :
       {std::string(), std::string(31, '0'), std::string(33, '0'), std::string(32, 'X')}) {
    Measurable event = measurable(world, "a");
    event.probe = wrong;
    world.refuses(event);
  }
  EXPECT_TRUE(world.state.live.providers.at("a").probe.empty());
}

TEST(Links, OfAnotherSessionAreRefused) {
  World world;
  world.join_all({"a", "b"});
  LinksMeasured late = links(world, "a", {{"b", kLan}});
  Measurable old = measurable(world, "a");
  world.join("a");
  world.refuses(late);
  world.refuses(old);
  late.session = old.session = 0;
  world.refuses(late);
  world.refuses(old);
  late.session = old.session = world.session("b");
  world.refuses(late);
  world.refuses(old);
  EXPECT_TRUE(links_of(world, "a").empty());
}

TEST(Links, HaveAnEnd) {
  World world;
  world.join("a");
  std::map<MemberId, planner::Link> many;
  for (std::size_t i = 0; i <= kMostLinks; ++i) {
    const MemberId id = concat("p", i);
    world.enrol(id);
    many[id] = kLan;
  }
  world.refuses(links(world, "a", many));
  const auto last = many.extract("p0");
  world.does(links(world, "a", many));
  world.does(links(world, "a", many));
  world.refuses(links(world, "a", {{"p0", kLan}}));
  world.join("p0");
  world.does(measurable(world, "p0"));
  EXPECT_TRUE(asked(world.does(measurable(world, "a"))).empty()) << "it has no room for another";
  EXPECT_EQ(links_of(world, "a").size(), kMostLinks);
}

TEST(Links, OfWhoIsLostRemovedOrComesAnewAreForgotten) {
  World world;
  world.join_all({"a", "b", "c"});
  world.does(links(world, "a", {{"b", kLan}, {"c", kLan}}));
  world.does(links(world, "b", {{"a", kLan}}));
  world.does(RemoveMember{"c"});
  EXPECT_FALSE(links_of(world, "a").contains("c"));
  world.join("b");  // perhaps from elsewhere
  EXPECT_TRUE(links_of(world, "a").empty());
  EXPECT_TRUE(links_of(world, "b").empty());
  world.does(links(world, "a", {{"b", kLan}}));
  world.does(links(world, "b", {{"a", kLan}}));
  world.does(Closed{"b", world.session("b")});
  EXPECT_TRUE(links_of(world, "a").empty());
  EXPECT_TRUE(links_of(world, "b").empty());
}

TEST(Links, StayWithAStageThatIsKept) {
  World world;
  world.join_all({"a", "b"});
  world.does(links(world, "a", {{"b", kLan}}));
  world.run({{"a", "b"}});
  Join back = world.join_of("b");
  back.holds = world.from("b").epoch;
  world.does(back);
  back = world.join_of("a");
  back.holds = world.from("a").epoch;
  world.does(back);
  EXPECT_EQ(links_of(world, "a").at("b"), kLan);
}

TEST(Links, ArePlannedWithAndShown) {
  World world;
  world.join_all({"a", "b"});
  world.does(measurable(world, "a"));
  world.does(measurable(world, "b"));
  world.does(links(world, "b", {{"a", kLan}}));
  world.submit();
  ASSERT_EQ(world.asked.back().pool.size(), 2U);
  EXPECT_EQ(world.asked.back().pool[1].measured.links.at("a"), kLan);
  const std::string text = view(world.state, world.now);
  const auto providers = nlohmann::json::parse(text)["providers"];
  EXPECT_TRUE(providers[0]["links"].empty());
  EXPECT_EQ(providers[1]["links"],
            nlohmann::json::parse(
                R"([{"provider": "a", "name": "a", "mbps": 900.0, "latency_ms": 0.5}])"));
  EXPECT_EQ(text.find(probe_of("a")), std::string::npos) << "the secret is nobody's to see";
}

}  // namespace
}  // namespace ravnest::coordinator
