#include "ravnest/control/reached.h"

#include <gtest/gtest.h>

namespace ravnest::control {
namespace {

TEST(SeenFrom, WhoIsOnTheServersMachineIsWhereTheServerIs) {
  EXPECT_EQ(seen_from("192.168.1.5:7777", "127.0.0.1:9000"), "192.168.1.5:9000");
  EXPECT_EQ(seen_from("192.168.1.5:7777", "[::1]:9000"), "192.168.1.5:9000");
  EXPECT_EQ(seen_from("[fd00::5]:7777", "127.0.0.1:9000"), "[fd00::5]:9000");
}

TEST(SeenFrom, OthersAreWhereTheySay) {
  EXPECT_EQ(seen_from("192.168.1.5:7777", "192.168.1.7:9000"), "192.168.1.7:9000");
  EXPECT_EQ(seen_from("192.168.1.5:7777", ""), "") << "not known yet";
}

TEST(SeenFrom, OnTheServersMachineNothingChanges) {
  EXPECT_EQ(seen_from("127.0.0.1:7777", "127.0.0.1:9000"), "127.0.0.1:9000");
  EXPECT_EQ(seen_from("localhost:7777", "127.0.0.1:9000"), "127.0.0.1:9000");
}

}  // namespace
}  // namespace ravnest::control
