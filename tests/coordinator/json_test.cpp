#include "ravnest/coordinator/json.h"

#include <gtest/gtest.h>

#include "tests/coordinator/world.h"

namespace ravnest::coordinator {
namespace {

Durable busy_state() {
  World world;
  world.run({{"a", "b"}, {"c", "d"}});
  world.checkpoint({"a", "b"}, 4);
  world.keep({"a", "b"}, {7});
  world.does(world.checkpoint_of("a", 7));
  world.does(world.result_of("c"));
  world.submit();
  world.does(MakeToken{{.hash = sha256_of("t"), .uses = 3, .expires_at = world.now.wall + 1}});
  return world.state.durable;
}

TEST(Json, AStateComesBackAsItWas) {
  const Durable durable = busy_state();
  EXPECT_EQ(read_durable(to_json(durable)), durable);
}

// Replaces the first `from` and expects a refusal.
void expect_refusal(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  EXPECT_THROW(read_durable(text), std::invalid_argument) << from << " -> " << to;
}

TEST(Json, AStateThatIsOtherwiseIsRefused) {
  const std::string text = to_json(busy_state());
  expect_refusal(text, "\"boot\":1", "\"boot\":\"1\"");
  expect_refusal(text, "\"boot\":1", "\"boot\":1.5");
  expect_refusal(text, "\"boot\":1", "\"boot\":true");
  expect_refusal(text, "\"boot\":1", "\"boot\":99999999999999999999");
  expect_refusal(text, "\"boot\":1", "\"boot\":18446744073709551615");
  expect_refusal(text, "\"boot\":1", "\"boots\":1");
  expect_refusal(text, "\"boot\":1", "\"boot\":1,\"more\":1");
  expect_refusal(text, "\"provider\":\"a\"", "\"provider\":\"b\"");
  expect_refusal(text, "\"provider\":\"a\"", "\"provider\":\"stranger\"");
  expect_refusal(text, "\"provider\":\"a\"", "\"provider\":\"\"");
  expect_refusal(text, "\"role\":\"provider\"", "\"role\":\"king\"");
  expect_refusal(text, "\"is_running\":true", "\"is_running\":1");
  expect_refusal(text, "\"shape\":0", "\"shape\":9");
  expect_refusal(text, "\"shape\":0", "\"shape\":-1");
  expect_refusal(text, "\"last_job\":2", "\"last_job\":1");
  expect_refusal(text, "\"pending\":[[7,[[0,", "\"pending\":[[7,[[5,");
  expect_refusal(text, "{", "[");
  EXPECT_THROW(read_durable(""), std::invalid_argument);
  EXPECT_THROW(read_durable(std::string(100'000, '[')), std::invalid_argument);
  EXPECT_THROW(read_durable(text.substr(0, text.size() / 2)), std::invalid_argument);
}

TEST(Json, ChangesThatAreOtherwiseAreRefused) {
  const std::vector<Change> changes = {ServerBooted{1}, MemberPaused{"a", true}};
  const std::string text = to_json(changes);
  EXPECT_EQ(to_json(read_changes(text)), text);
  for (const std::string bad :
       {"{}", "[1]", "[{}]", R"([{"change":"coup"}])", R"([{"change":1,"boot":1}])",
        R"([{"change":"server_booted"}])", R"([{"change":"server_booted","boot":1,"x":2}])",
        R"([{"change":"member_paused","member":1,"is_paused":true}])"}) {
    EXPECT_THROW(read_changes(bad), std::invalid_argument) << bad;
  }
}

TEST(Json, ChangesThatDoNotFitTheStateAreRefused) {
  const Hash hash = sha256_of("x");
  const std::vector<Change> unfit = {
      ServerBooted{0},
      TokenDropped{hash},
      MemberEnrolled{{.id = "a"}, ""},
      MemberEnrolled{{.id = "z"}, hash},
      MemberPaused{"z", true},
      MemberRemoved{"a"},
      JobSubmitted{.job = 9, .program = hash},
      JobMoved{9, Phase::kQueued, ""},
      JobMoved{1, Phase::kDone, ""},
      PlanAsked{1, 0},
      PlanAdopted{1, {}},
      LineupSet{.job = 1, .cluster = 1, .shape = 0, .epoch = 99, .providers = {"a"}},
      LineupSet{1, 1, 7, 99, {"a", "b"}, {Origin::kFresh, Origin::kFresh}},
      LineupSet{1, 1, 0, 99, {"c", "b"}, {Origin::kFresh, Origin::kFresh}},
      LineupSet{1, 1, 0, 99, {"a", "a"}, {Origin::kFresh, Origin::kFresh}},
      PlaceVacated{1, 1, 2},
      PlaceVacated{1, 1, -1},
      ClusterDissolved{1, 9},
      ClusterStarted{9, 1},
      CheckpointKept{1, 1, 5, 1, hash},
      CheckpointKept{1, 1, 0, 1, "no hash"},
      RestoreMoved{1, 1, 7},
      ResultKept{1, 1, 0, "no hash"},
      JobEnded{1, Phase::kRunning, "", 0},
      JobForgotten{1},
      Noted{9, {}},
  };
  for (const Change& change : unfit) {
    Durable durable = busy_state();
    EXPECT_THROW(apply_change(durable, change), std::invalid_argument)
        << to_json(std::span(&change, 1));
  }
}

}  // namespace
}  // namespace ravnest::coordinator
