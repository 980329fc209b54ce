#include "ravnest/front/findings.h"

#include <gtest/gtest.h>

#include "tests/base/has.h"

namespace ravnest::front {
namespace {

using Kind = Finding::Kind;

TEST(Findings, AClockMayBeAMinuteOff) {
  EXPECT_EQ(judge_clock(1000, 1060).kind, Kind::kOk);
  const Finding ahead = judge_clock(1061, 1000);
  EXPECT_EQ(ahead.kind, Kind::kWrong);
  EXPECT_TRUE(has(ahead.text, "61 s ahead of the server's: set it")) << ahead.text;
  EXPECT_TRUE(has(judge_clock(1000, 100'000).text, "99000 s behind"));
}

// Then TLS fails before anybody could be asked for the time.
TEST(Findings, AClockThatIsFarOffIsFoundByTheCertificate) {
  const trust::WallTime now = std::chrono::system_clock::now();
  const trust::Validity validity = trust::valid_for(std::chrono::days(10), now);
  EXPECT_EQ(judge_validity(validity, now).kind, Kind::kOk);
  const Finding behind = judge_validity(validity, now - std::chrono::days(2));
  EXPECT_EQ(behind.kind, Kind::kWrong);
  EXPECT_TRUE(has(behind.text, "before the server was made")) << behind.text;
  const Finding ahead = judge_validity(validity, now + std::chrono::days(11));
  EXPECT_EQ(ahead.kind, Kind::kWrong);
  EXPECT_TRUE(has(ahead.text, "after the server's authority ends")) << ahead.text;
}

TEST(Findings, AnotherVersionIsWrongAndBothAreNamed) {
  EXPECT_EQ(judge_version("1.0.0", "1.0.0").kind, Kind::kOk);
  const Finding other = judge_version("1.0.0", "1.1.0");
  EXPECT_EQ(other.kind, Kind::kWrong);
  EXPECT_TRUE(has(other.text, "1.0.0 here, 1.1.0 on the server")) << other.text;
}

TEST(Findings, ASlowOrFarLinkIsPoor) {
  EXPECT_EQ(judge_link(100.0, 5.0).kind, Kind::kOk);
  EXPECT_EQ(judge_link(5.0, 5.0).kind, Kind::kPoor);
  EXPECT_EQ(judge_link(100.0, 150.0).kind, Kind::kPoor);
  EXPECT_EQ(judge_distance(5.0).kind, Kind::kOk);
  EXPECT_EQ(judge_distance(150.0).kind, Kind::kPoor);
}

TEST(Findings, LittleMemoryIsPoor) {
  EXPECT_EQ(judge_machine({.ram_gb = 8.0, .threads = 4}).kind, Kind::kOk);
  const Finding little = judge_machine({.ram_gb = 0.5, .threads = 1});
  EXPECT_EQ(little.kind, Kind::kPoor);
  EXPECT_TRUE(has(little.text, "1 core:")) << little.text;
}

TEST(Findings, WhoIsRelayedHearsHowToMendIt) {
  EXPECT_EQ(judge_reach(false, "10.0.0.2:7000").kind, Kind::kOk);
  const Finding relayed = judge_reach(true, "10.0.0.2:7000");
  EXPECT_EQ(relayed.kind, Kind::kPoor);
  EXPECT_TRUE(has(relayed.text, "join --port")) << relayed.text;
}

}  // namespace
}  // namespace ravnest::front
