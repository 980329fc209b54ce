#include "ravnest/planner/report/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/planner/plans.h"

namespace ravnest::planner {
namespace {

using Json = nlohmann::json;

TEST(ReferenceLog, IsThatOfTheWalkthrough) {
  EXPECT_EQ(reference_log(make_walkthrough()), R"(Node(0, Cluster(0))
self.IP(0.0.0.0:8080)
Ring IDs({0: 'conv2d_1.weight'})
Address2Param({'0.0.0.0:8080': 'conv2d_1.weight'})


Node(1, Cluster(0))
self.IP(0.0.0.0:8081)
Ring IDs({1: 'dense_1.weight'})
Address2Param({'0.0.0.0:8081': 'dense_1.weight'})


Node(2, Cluster(0))
self.IP(0.0.0.0:8082)
Ring IDs({2: 'bn_3.weight'})
Address2Param({'0.0.0.0:8082': 'bn_3.weight'})
)");
}

TEST(ReferenceLog, NamesTheHolderInTheNextClusterInTheOrderOfNodes) {
  const std::string log = reference_log(make_two_clusters());
  EXPECT_TRUE(
      log.starts_with("Node(0, Cluster(1))\nself.IP(0.0.0.0:8080)\n"
                      "Ring IDs({0: 'conv2d_1.weight'})\n"
                      "Address2Param({'0.0.0.0:8081': 'conv2d_1.weight'})\n\n\n"
                      "Node(1, Cluster(0))\nself.IP(0.0.0.0:8081)\n"
                      "Ring IDs({0: 'conv2d_1.weight'})\n"
                      "Address2Param({'0.0.0.0:8080': 'conv2d_1.weight'})\n\n\n"
                      "Node(2, Cluster(0))\n"))
      << log;
  EXPECT_TRUE(
      log.ends_with("Node(5, Cluster(0))\nself.IP(0.0.0.0:8085)\n"
                    "Ring IDs({2: 'bn_3.weight'})\n"
                    "Address2Param({'0.0.0.0:8084': 'bn_3.weight'})\n"))
      << log;
}

TEST(ReferenceLog, ListsEveryRangeAndEveryNextHolderOnce) {
  Plan plan = make_unequal_clusters();
  EXPECT_TRUE(reference_log(plan).starts_with(
      "Node(0, Cluster(0))\nself.IP(0.0.0.0:8080)\nRing IDs({0: 'a', 1: 'b'})\n"
      "Address2Param({'0.0.0.0:8081': 'a', '0.0.0.0:8082': 'b'})\n"));
  for (Ring& ring : plan.rings) {
    ring.holders[1] = 0;
  }
  EXPECT_TRUE(reference_log(plan).starts_with(
      "Node(0, Cluster(0))\nself.IP(0.0.0.0:8080)\nRing IDs({0: 'a', 1: 'b'})\n"
      "Address2Param({'0.0.0.0:8081': 'a'})\n"));
  EXPECT_TRUE(reference_log(plan).ends_with("Ring IDs({})\nAddress2Param({})\n"));
}

TEST(ReferenceLog, QuotesNamesAsPythonDoes) {
  const auto quoted = [](const std::string& name) {
    Plan plan = make_walkthrough();
    plan.rings[0].parameters[0] = name;
    const std::string log = reference_log(plan);
    const std::size_t begin = log.find("{0: ") + 4;
    return log.substr(begin, log.find("})\n", begin) - begin);
  };
  EXPECT_EQ(quoted("plain"), "'plain'");
  EXPECT_EQ(quoted("it's"), "\"it's\"");
  EXPECT_EQ(quoted("say \"x\""), "'say \"x\"'");
  EXPECT_EQ(quoted("both ' and \""), "'both \\' and \"'");
  EXPECT_EQ(quoted("back\\slash"), "'back\\\\slash'");
  EXPECT_EQ(quoted("a\nb\tc\rd\x1b[31m\x7f"), "'a\\nb\\tc\\rd\\x1b[31m\\x7f'");
  EXPECT_EQ(quoted("\u00f6\u009b\u00a0\u00ad\u4e2d"), "'\u00f6\\x9b\\xa0\\xad\u4e2d'");
}

TEST(Roles, FollowTheOrderOfTheStages) {
  const Cluster cluster = make_walkthrough().clusters[0];
  EXPECT_EQ(role_of(cluster, 0), "root");
  EXPECT_EQ(role_of(cluster, 1), "stem");
  EXPECT_EQ(role_of(cluster, 2), "leaf");
  EXPECT_EQ(role_of(make_unequal_clusters().clusters[0], 0), "root");
}

TEST(Slowest, IsTheLongestComputationOrLink) {
  Cluster cluster = make_walkthrough().clusters[0];
  EXPECT_EQ(slowest_of(cluster), (Slowest{.stage = 0, .is_link = false}));
  cluster.stages[1].backward_seconds = 0.4;
  EXPECT_EQ(slowest_of(cluster), (Slowest{.stage = 1, .is_link = false}));
  cluster.stages[0].link_seconds = 0.6;
  EXPECT_EQ(slowest_of(cluster), (Slowest{.stage = 0, .is_link = true}));
}

TEST(SamplesPerSecond, AddUpOverClusters) {
  Plan plan = make_two_clusters();
  plan.clusters[1].bottleneck_seconds = 0.5;
  EXPECT_DOUBLE_EQ(*samples_per_second(plan, plan.clusters[0]),
                   64 / pass_seconds(plan.pool, plan.clusters[0]));
  EXPECT_DOUBLE_EQ(*samples_per_second(plan),
                   64 / pass_seconds(plan.pool, plan.clusters[0]) + 64 / 0.5);
  plan.clusters[1].bottleneck_seconds = 0.0;
  EXPECT_EQ(samples_per_second(plan), std::nullopt);
  plan = make_two_clusters();
  plan.batch.reset();
  EXPECT_EQ(samples_per_second(plan), std::nullopt);
}

TEST(PlanJson, HoldsAllThatThePlanSays) {
  Plan plan = make_walkthrough();
  plan.pool.push_back(make_machine(7, 0.5));
  plan.spares = {{.machine = 3, .reason = "too small"}};
  plan.clusters[0].stages[1].copies = {"conv2d_1.weight"};
  plan.pool[1].links[2] = {.mbps = 4, .latency_ms = 30};
  const Json json = Json::parse(plan_json(plan));
  Json expected = Json::parse(R"({
    "batch": 64, "optimizer": "adam", "seed": 0, "costs_known": true, "speeds_known": true,
    "model_bytes": 5000000000, "total_flops": 900, "samples_per_second": 150.23474178403754,
    "rings": [
      {"id": 0, "parameters": ["conv2d_1.weight", "conv2d_1.bias"], "buffers": [], "bytes": 1000,
       "holders": [{"cluster": 0, "stage": 0, "node": 0, "address": "0.0.0.0:8080"}]},
      {"id": 1, "parameters": ["dense_1.weight"], "buffers": [], "bytes": 1000,
       "holders": [{"cluster": 0, "stage": 1, "node": 1, "address": "0.0.0.0:8081"}]},
      {"id": 2, "parameters": ["bn_3.weight"], "buffers": [], "bytes": 1000,
       "holders": [{"cluster": 0, "stage": 2, "node": 2, "address": "0.0.0.0:8082"}]}],
    "spares": [
      {"node": 7, "address": "0.0.0.0:8087", "ram_bytes": 500000000, "reason": "too small"}]
  })");
  const Json stem = Json::parse(R"({
    "stage": 1, "node": 1, "address": "0.0.0.0:8081", "role": "stem", "ops": [4, 8],
    "parameters": ["dense_1.weight"], "copies": ["conv2d_1.weight"], "parameter_bytes": 1000,
    "memory": {"weights": 1000000000, "versions": 200000000, "gradients": 300000000,
               "optimizer": 400000000, "activations": 50000000, "temporary": 6000000,
               "total": 1956000000},
    "ram_bytes": 8000000000, "forward_flops": 100, "backward_flops": 200,
    "flops_share": 0.3333333333333333, "forward_seconds": 0.1, "backward_seconds": 0.2,
    "link": {"forward_bytes": 64000, "backward_bytes": 32000, "seconds": 0.05, "mbps": 4.0,
             "latency_ms": 30.0},
    "delay": 1, "passes_in_flight": 2
  })");
  const Json& cluster = json.at("clusters").at(0);
  EXPECT_EQ(cluster.at("stages").at(1), stem);
  EXPECT_EQ(cluster.at("stages").at(2).at("link"), nullptr);
  EXPECT_EQ(cluster.at("cluster"), 0);
  EXPECT_EQ(cluster.at("bottleneck"),
            Json::parse(R"({"seconds": 0.3, "stage": 0, "kind": "compute"})"));
  EXPECT_EQ(cluster.at("samples_per_second"), json.at("samples_per_second"));
  expected["clusters"] = json.at("clusters");
  EXPECT_EQ(json, expected);
}

TEST(PlanJson, SaysNullForWhatIsNotKnown) {
  Plan plan = make_walkthrough();
  plan.batch.reset();
  plan.total_flops = 0;
  plan.costs_known = false;
  const Json json = Json::parse(plan_json(plan));
  EXPECT_EQ(json.at("batch"), nullptr);
  EXPECT_EQ(json.at("samples_per_second"), nullptr);
  EXPECT_EQ(json.at("clusters")[0].at("stages")[0].at("flops_share"), nullptr);
  EXPECT_EQ(json.at("costs_known"), false);
}

TEST(PlanJson, IsJsonWhateverTheNames) {
  Plan plan = make_walkthrough();
  plan.rings[0].parameters[0] = "not UTF-8: \xff \" \\";
  EXPECT_EQ(Json::parse(plan_json(plan)).at("rings")[0].at("parameters")[0],
            "not UTF-8: \ufffd \" \\");
}

}  // namespace
}  // namespace ravnest::planner
