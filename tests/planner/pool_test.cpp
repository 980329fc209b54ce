#include "ravnest/planner/pool.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/base/has.h"

namespace ravnest::planner {
namespace {

std::string refusal(std::string_view json) {
  try {
    read_pool(json, "node_configs.json");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Pool, ReadsTheReferencesForm) {
  const auto pool = read_pool(R"({
    "1": {"IP": "10.0.0.2:8081", "benchmarks": {"ram": 16, "bandwidth": 10.5}},
    "0": {"IP": "host-a.lan:8080", "benchmarks": {"ram": 8, "bandwidth": 20}}
    // Add as many nodes as you need here
  })",
                              "file");
  ASSERT_EQ(pool.size(), 2u);
  EXPECT_EQ(pool[0].id, 0);
  EXPECT_EQ(pool[0].address, "host-a.lan:8080");
  EXPECT_EQ(pool[0].ram_bytes(), 8'000'000'000);
  EXPECT_FALSE(pool[0].gflops.has_value());
  EXPECT_EQ(pool[1].mbps, 10.5);
}

TEST(Pool, ReadsSpeedLatencyAndLinks) {
  const auto pool = read_pool(R"({
    "0": {"IP": "a:1", "benchmarks": {"ram": 8, "bandwidth": 100, "speed": 40, "latency": 3,
          "links": {"1": {"bandwidth": 5, "latency": 30}}}},
    "1": {"IP": "b:1", "benchmarks": {"ram": 8, "bandwidth": 50}},
    "2": {"IP": "[::1]:9", "benchmarks": {"ram": 8, "bandwidth": 200}}})",
                              "file");
  EXPECT_EQ(pool[0].gflops, 40.0);
  EXPECT_EQ(link_between(pool[0], pool[1]), (Link{.mbps = 5, .latency_ms = 30}));
  EXPECT_EQ(link_between(pool[1], pool[0]), (Link{.mbps = 5, .latency_ms = 30}));
  EXPECT_EQ(link_between(pool[0], pool[2]), (Link{.mbps = 100, .latency_ms = 4}));
}

TEST(Pool, SpeedIsMeasuredOrThatOfTheMiddleOrGrowsWithRam) {
  std::vector<Machine> pool(3);
  pool[0].ram_gb = 4;
  pool[1].ram_gb = 8;
  pool[2].ram_gb = 16;
  const auto assumed = planning_gflops(pool);
  EXPECT_DOUBLE_EQ(assumed[1] / assumed[0], 2.0);
  EXPECT_DOUBLE_EQ(assumed[2] / assumed[0], 4.0);
  pool[0].gflops = 10;
  pool[1].gflops = 30;
  EXPECT_EQ(planning_gflops(pool), (std::vector<double>{10, 30, 30}));
}

TEST(Pool, SaysWhatIsWrongAndWhere) {
  EXPECT_TRUE(has(refusal(""), "node_configs.json: line 1 is not JSON (the file is empty"));
  EXPECT_TRUE(has(refusal("{\n\"0\": {\n}"), "line 3 is not JSON"));
  EXPECT_TRUE(has(refusal("[]"), "expected an object with a node or more"));
  EXPECT_TRUE(has(refusal("{}"), "got an empty one"));
  EXPECT_TRUE(has(refusal(R"({"0": 1e999})"), "got a greater one"));
  EXPECT_TRUE(has(refusal(R"({"a": {}})"), "got \"a\""));
  EXPECT_TRUE(has(refusal(R"({"-1": {}})"), "got \"-1\""));
  EXPECT_TRUE(has(refusal(R"({"0": {}})"), "node \"0\": the key \"IP\" is missing"));
  EXPECT_TRUE(has(refusal(R"({"0": 3})"), "expected an object, got number"));
  EXPECT_TRUE(has(refusal(R"({"0": {"IP": "a:1"}})"), "\"benchmarks\" is missing"));
  EXPECT_TRUE(has(refusal(R"({"0": {"IP": "a:1", "benchmarks": {"ram": 1}}})"),
                  "node \"0\", benchmarks: the key \"bandwidth\" is missing"));
  for (const char* ram : {"-4", "0", "\"8\"", "null", "1e300", "[]"}) {
    EXPECT_TRUE(has(refusal(std::string(R"({"0": {"IP": "a:1", "benchmarks": {"ram": )") + ram +
                            R"(, "bandwidth": 1}}})"),
                    "expected \"ram\" to be a number of GB above 0 and up to 1e+06"))
        << ram;
  }
}

TEST(Pool, RefusesWhatIsGivenTwice) {
  const std::string node = R"({"IP": "a:1", "benchmarks": {"ram": 1, "bandwidth": 1}})";
  EXPECT_TRUE(has(refusal("{\"0\": " + node + ", \"1\": " + node + "}"),
                  "nodes \"0\" and \"1\" have the same IP a:1"));
  EXPECT_TRUE(
      has(refusal("{\"0\": " + node + ", \"0\": " + node + "}"), "the key \"0\" is given twice"));
}

TEST(Pool, RefusesAddressesThatAreNotHostAndPort) {
  EXPECT_TRUE(has(refusal(R"({"0": {"IP": "../etc:1", "benchmarks": {}}})"),
                  "expected \"IP\" to be \"host:port\", got \"../etc:1\""));
}

TEST(Pool, RefusesLinksToNobody) {
  EXPECT_TRUE(has(refusal(R"({"0": {"IP": "a:1", "benchmarks": {"ram": 1, "bandwidth": 1,
                                  "links": {"7": {"bandwidth": 1}}}}})"),
                  "there is no other node \"7\""));
}

}  // namespace
}  // namespace ravnest::planner
