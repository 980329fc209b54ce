#include <gtest/gtest.h>

#include "tests/base/has.h"
#include "tests/coordinator/world.h"

namespace ravnest::coordinator {
namespace {

Token token(const std::string& secret, std::int64_t uses, std::int64_t expires_at) {
  return {.hash = sha256_of(secret), .uses = uses, .expires_at = expires_at};
}

TEST(Members, ATokenServesAsOftenAsItSays) {
  World world;
  world.does(MakeToken{token("s", 2, world.now.wall + 60)});
  world.does(Enrol{sha256_of("s"), "a", "box-a"});
  world.does(Enrol{sha256_of("s"), "b", "box-b"});
  EXPECT_TRUE(world.state.durable.tokens.empty());
  world.refuses(Enrol{sha256_of("s"), "c", "box-c"});
  EXPECT_EQ(world.state.durable.members.size(), 2U);
}

TEST(Members, ATokenExpiresByTheWallClock) {
  World world;
  world.does(MakeToken{token("s", 1, world.now.wall + 60)});
  world.pass(Milliseconds{60'000});
  world.refuses(Enrol{sha256_of("s"), "a", "box-a"});
  world.does(Tick{});
  EXPECT_TRUE(world.state.durable.tokens.empty());
}

TEST(Members, AnUnknownTokenAndASpentOneAreRefusedAlike) {
  World world;
  world.does(MakeToken{token("s", 1, world.now.wall + 60)});
  world.does(Enrol{sha256_of("s"), "a", "box-a"});
  EXPECT_EQ(world.refuses(Enrol{sha256_of("s"), "b", "box-b"}),
            world.refuses(Enrol{sha256_of("guess"), "b", "box-b"}));
}

TEST(Members, TokensThatMakeNoSenseAreRefused) {
  World world;
  world.refuses(MakeToken{token("s", 0, world.now.wall + 60)});
  world.refuses(MakeToken{token("s", 1, world.now.wall)});
  world.refuses(MakeToken{{.hash = "secret", .uses = 1, .expires_at = world.now.wall + 60}});
  world.does(MakeToken{token("s", 1, world.now.wall + 60)});
  world.refuses(MakeToken{token("s", 1, world.now.wall + 60)});
}

TEST(Members, TokensHaveAnEnd) {
  World world;
  for (std::size_t i = 0; i < kMostTokens; ++i) {
    world.state.durable.tokens[sha256_of(std::to_string(i))] = {};
  }
  EXPECT_FALSE(
      decide(world.state, MakeToken{token("s", 1, world.now.wall + 60)}, world.now).is_accepted);
}

TEST(Members, NamesAreUniqueAndPlain) {
  World world;
  world.enrol("box");
  world.does(MakeToken{token("s", 9, world.now.wall + 60)});
  EXPECT_NE(world.refuses(Enrol{sha256_of("s"), "b", "box"}).find("nobody has"), std::string::npos);
  for (const std::string name : {"", "-x", ".x", "a b", "a/b", "<b>", "a\n", "\xff", "../x", "é"}) {
    world.refuses(Enrol{sha256_of("s"), "b", name});
  }
  world.refuses(Enrol{sha256_of("s"), "b", std::string(65, 'a')});
  world.refuses(Enrol{sha256_of("s"), "box", "other"});
  EXPECT_EQ(world.state.durable.tokens.begin()->second.uses, 9);
}

TEST(Members, ARequesterIsNoProvider) {
  World world;
  world.enrol("rita", Role::kRequester);
  world.refuses(world.join_of("rita"));
  world.enrol("box");
  world.refuses(SubmitJob{"box", "job", world.program, {}});
}

TEST(Members, OneWhoIsRemovedLosesItsStage) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("c");
  world.does(RemoveMember{"a"});
  EXPECT_EQ(world.lineup(job), (std::vector<MemberId>{"c", "b"}));
  EXPECT_FALSE(world.state.durable.members.contains("a"));
  EXPECT_FALSE(world.done<CloseSession>().empty());
  world.refuses(world.join_of("a"));
}

TEST(Members, TheJobsOfARequesterWhoIsRemovedEnd) {
  World world;
  const JobId running = world.run({{"a", "b"}});
  const JobId queued = world.submit({.least_providers = 9});
  world.enrol("otto", Role::kRequester);
  const JobId other = world.does(SubmitJob{"otto", "job", world.program, {}}).job;
  world.does(RemoveMember{"rita"});
  for (const JobId job : {running, queued}) {
    EXPECT_EQ(world.job(job).phase, Phase::kCancelled);
    EXPECT_TRUE(has(world.job(job).reason, "rita, was removed")) << world.job(job).reason;
  }
  EXPECT_TRUE(world.state.durable.seats.empty());
  EXPECT_FALSE(is_over(world.job(other).phase));
}

}  // namespace
}  // namespace ravnest::coordinator
