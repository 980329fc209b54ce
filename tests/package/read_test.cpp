#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "ravnest/base/error.h"
#include "ravnest/package/package.h"
#include "tests/base/temporary_folder.h"
#include "tests/package/plans.h"

namespace ravnest::package {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

// A plan on disk whose files a test may change.
class ReadPlan : public testing::Test {
 protected:
  void SetUp() override { write_plan(make_program(), make_two_clusters(), node_data()); }

  const fs::path& node_data() const { return folder_.path(); }

  void change(const std::string& file, const std::function<void(Json&)>& edit) const {
    Json json;
    std::ifstream(node_data() / file) >> json;
    edit(json);
    std::ofstream(node_data() / file) << json;
  }

  // What read_node says of node_11 after a change of its file, without the file's name.
  std::string error_after(const std::function<void(Json&)>& edit) const {
    const fs::path path = node_data() / "nodes/node_11.json";
    fs::copy_file(path, node_data() / "kept.json");
    change("nodes/node_11.json", edit);
    std::string error = error_of([&] { read_node(node_data(), "node_11"); });
    fs::rename(node_data() / "kept.json", path);
    const std::string start = concat("[package] '", path.string(), "'");
    EXPECT_TRUE(error.starts_with(start)) << error;
    return error.substr(std::min(start.size(), error.size()));
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ReadPlan, GivesBackWhatWasWritten) {
  const NodeConfig node = read_node(node_data(), "node_11");
  NodeConfig expected{
      .id = 11,
      .address = "0.0.0.0:8081",
      .plan = node.plan,
      .cluster = 0,
      .clusters = 2,
      .stage = 1,
      .stages = 3,
      .role = "stem",
      .next = "0.0.0.0:8082",
      .previous = "0.0.0.0:8080",
      .mates = {{10, "0.0.0.0:8080", {0}, {0}},
                {11, "0.0.0.0:8081", {}, {}},
                {12, "0.0.0.0:8082", {2}, {2}}},
      .providers_here = 5,
      .rings = {{1, {"middle.weight"}, {}, {"0.0.0.0:8081", "0.0.0.0:8084"}, {11, 14}},
                {2, {"late.weight"}, {}, {"0.0.0.0:8081", "0.0.0.0:8083"}, {11, 13}}},
      .passes_in_flight = 2,
      .batch = 4};
  EXPECT_EQ(node, expected);
  EXPECT_EQ(stage_folder(node_data(), node), node_data() / "cluster_0/0.0.0.0:8081");
}

TEST_F(ReadPlan, KnowsTheEndsOfAPipeline) {
  const NodeConfig root = read_node(node_data(), "node_14");
  EXPECT_EQ(root.role, "root");
  EXPECT_EQ(root.cluster, 1U);
  EXPECT_EQ(root.previous, std::nullopt);
  EXPECT_EQ(root.next, "0.0.0.0:8083");
  const NodeConfig leaf = read_node(node_data(), "node_13");
  EXPECT_EQ(leaf.role, "leaf");
  EXPECT_EQ(leaf.next, std::nullopt);
  EXPECT_EQ(leaf.plan, root.plan);
}

TEST_F(ReadPlan, KnowsWhereTiedParametersLive) {
  const NodeConfig root = read_node(node_data(), "node_10");
  const NodeConfig leaf = read_node(node_data(), "node_12");
  EXPECT_EQ(leaf.tied, (std::map<std::string, std::string>{{"in.weight", "0.0.0.0:8080"}}));
  EXPECT_TRUE(leaf.rings.empty());
  EXPECT_TRUE(root.tied.empty());
  EXPECT_EQ(root.tied_copies,
            (std::map<std::string, std::vector<std::string>>{{"in.weight", {"0.0.0.0:8082"}}}));
}

TEST_F(ReadPlan, CallsTheOnlyStageOfAClusterItsRoot) {
  write_plan(make_program(), make_single(), node_data());
  const NodeConfig node = read_node(node_data(), "node_15");
  EXPECT_EQ(node.role, "root");
  EXPECT_EQ(node.next, std::nullopt);
  EXPECT_EQ(node.previous, std::nullopt);
  EXPECT_EQ(node.clusters, 1U);
  EXPECT_EQ(node.batch, std::nullopt);
  EXPECT_EQ(node.rings.at(0).members, std::vector<std::string>{"0.0.0.0:8085"});
}

TEST_F(ReadPlan, KeepsTheBracketsOfIPv6) {
  planner::Plan plan = make_single();
  plan.pool[5].address = "[::1]:8085";
  write_plan(make_program(), plan, node_data());
  const NodeConfig node = read_node(node_data(), "node_15");
  EXPECT_EQ(node.address, "[::1]:8085");
  EXPECT_EQ(read_stage(node_data(), node).program.graph.ops.size(), 6U);
}

TEST_F(ReadPlan, CarriesAnyNameOfAParameter) {
  const std::string name = "a 'quoted' \"\\ \u00f6\n name";
  graph::Program program = make_program();
  planner::Plan plan = make_single();
  for (graph::Weight& weight : program.weights) {
    weight.storage_key = weight.storage_key == "late.weight" ? name : weight.storage_key;
    weight.name = weight.name == "late.weight" ? name : weight.name;
  }
  program.graph.inputs[2].target = name;
  plan.rings[0].parameters[2] = name;
  plan.clusters[0].stages[0].parameters[2] = name;
  write_plan(program, plan, node_data());
  EXPECT_EQ(read_node(node_data(), "node_15").rings[0].parameters[2], name);
}

TEST_F(ReadPlan, RefusesNamesThatAreNotANodes) {
  for (const std::string name :
       {"", "node", "node_", "node_x", "node_-1", "node_+1", "node_01", "node_1.json", "Node_10",
        "node_10/../node_11", "../nodes/node_10", "node_99999999999999999999"}) {
    EXPECT_EQ(error_of([&] { read_node(node_data(), name); }),
              "[package] expected the name of a node such as 'node_0', got '" + name + "'.");
  }
}

TEST_F(ReadPlan, SaysWhatToDoWithoutAPlan) {
  const fs::path empty = node_data() / "empty";
  EXPECT_EQ(error_of([&] { read_node(empty, "node_0"); }),
            "[package] no plan in '" + empty.string() + "': run clusterize first.");
  EXPECT_EQ(error_of([&] { read_node(node_data(), "node_15"); }),
            "[package] the plan in '" + node_data().string() +
                "' has no part for 'node_15': see the files in '" +
                (node_data() / "nodes").string() + "'.");
}

TEST_F(ReadPlan, RefusesWhatIsNotJson) {
  for (const std::string text : {"", "{", "{\"node_id\": 1} x", "\xff", "nope"}) {
    std::ofstream(node_data() / "nodes/node_10.json") << text;
    const std::string error = error_of([&] { read_node(node_data(), "node_10"); });
    EXPECT_NE(error.find("node_10.json' is not valid JSON"), std::string::npos) << error;
  }
  std::ofstream(node_data() / "nodes/node_10.json") << std::string(100000, '[');
  EXPECT_NE(error_of([&] { read_node(node_data(), "node_10"); }).find("at most 16 levels"),
            std::string::npos);
}

TEST_F(ReadPlan, RefusesAFileOfUnreasonableSize) {
  fs::resize_file(node_data() / "nodes/node_10.json", std::uintmax_t{1} << 40);
  EXPECT_NE(error_of([&] { read_node(node_data(), "node_10"); }).find("expected at most"),
            std::string::npos);
}

TEST_F(ReadPlan, NamesAKeyThatIsMissingOrOfAnotherType) {
  Json node;
  std::ifstream(node_data() / "nodes/node_11.json") >> node;
  for (const auto& [key, value] : node.items()) {
    EXPECT_EQ(error_after([&](Json& json) { json.erase(key); }),
              ": expected '" + key + "', which is missing.");
    for (const Json& wrong : {Json(true), Json(1.5), Json(-1), Json("\u00e9"), Json::array({1}),
                              Json{{"x", 1}}, Json(UINT64_MAX)}) {
      const std::string error = error_after([&](Json& json) { json[key] = wrong; });
      EXPECT_TRUE(error.starts_with(", '")) << key << " = " << wrong << ": " << error;
    }
  }
}

TEST_F(ReadPlan, NamesAKeyInsideARing) {
  EXPECT_EQ(error_after([](Json& json) { json["rings"][1]["id"] = -1; }),
            ", 'rings[1].id': expected a whole number from 0 to 1000000, got -1.");
  EXPECT_EQ(error_after([](Json& json) { json["rings"][1]["id"] = 1; }),
            ", 'rings[1].id': expected an id of its own, got 1.");
  EXPECT_EQ(error_after([](Json& json) { json["rings"][0]["parameters"] = Json::array(); }),
            ", 'rings[0].parameters': expected a parameter or more, got [].");
  EXPECT_EQ(error_after([](Json& json) { json["rings"][0]["members"][1] = "../x:1"; }),
            ", 'rings[0].members[1]': expected an address 'host:port', got \"../x:1\".");
  EXPECT_EQ(error_after([](Json& json) { json["rings"][0]["members"] = {"a:1", "b:2"}; }),
            ", 'rings[0].members': expected a member in each of 2 clusters, this node "
            "('0.0.0.0:8081') in place 0, got [\"a:1\",\"b:2\"].");
}

TEST_F(ReadPlan, RefusesKeysThatContradictEachOther) {
  EXPECT_EQ(error_after([](Json& json) { json["node_id"] = 12; }),
            ", 'node_id': expected 11, as the file's name says, got 12.");
  EXPECT_EQ(error_after([](Json& json) { json["rank"] = 1; }),
            ", 'rank': expected the cluster's number, got 1.");
  EXPECT_EQ(error_after([](Json& json) { json["cluster"] = 2; }),
            ", 'cluster': expected a whole number from 0 to 1, got 2.");
  EXPECT_EQ(error_after([](Json& json) { json["node_type"] = "leaf"; }),
            ", 'node_type': expected 'stem', got \"leaf\".");
  EXPECT_NE(error_after([](Json& json) {
              json["cluster_nodes"].erase(2);
            }).find("'cluster_nodes': expected the 3 nodes of the cluster"),
            std::string::npos);
  EXPECT_NE(error_after([](Json& json) {
              json["cluster_nodes"][2]["address"] = "0.0.0.0:9999";
            }).find("'cluster_nodes': expected the 3 nodes of the cluster"),
            std::string::npos);
  EXPECT_EQ(error_after([](Json& json) { json["ring_ids"]["1"] = "other"; }),
            ", 'ring_ids': expected what 'rings' says, got "
            "{\"1\":\"other\",\"2\":\"late.weight\"}.");
  EXPECT_EQ(error_after([](Json& json) {
              json["forward_target_host"] = nullptr;
              json["forward_target_port"] = nullptr;
            }),
            ", 'forward_target_host': expected the next stage's host, or null in the last stage, "
            "got null.");
}

TEST_F(ReadPlan, NeverFollowsThePathInTheFile) {
  const std::string tail = "cluster_0/0.0.0.0:8081/";
  for (const std::string path : {"/etc/", "../../elsewhere/", "cluster_0/0.0.0.0:8081/../../x/",
                                 "my_cluster_0/0.0.0.0:8081/", "cluster_0/0.0.0.0:8080/"}) {
    EXPECT_EQ(
        error_after([&](Json& json) { json["template_path"] = path; }),
        ", 'template_path': expected a path that ends with '" + tail + "', got \"" + path + "\".");
  }
  change("nodes/node_11.json",
         [&](Json& json) { json["template_path"] = "../../elsewhere/" + tail; });
  const NodeConfig node = read_node(node_data(), "node_11");
  EXPECT_EQ(stage_folder(node_data(), node), node_data() / "cluster_0/0.0.0.0:8081");
}

TEST_F(ReadPlan, NoticesAStageOfAnotherPlan) {
  const NodeConfig node = read_node(node_data(), "node_11");
  change("cluster_0/0.0.0.0:8081/submod_1_input.json",
         [](Json& json) { json["plan"] = "0123456789abcdef"; });
  EXPECT_NE(error_of([&] {
              read_stage(node_data(), node);
            }).find("submod_1_input.json', 'plan': expected the node's plan " + node.plan),
            std::string::npos);
}

TEST_F(ReadPlan, NoticesAPlanThatWasReplaced) {
  NodeConfig node = read_node(node_data(), "node_11");
  planner::Plan other = make_two_clusters();
  other.batch = 5;
  write_plan(make_program(), other, node_data());
  EXPECT_NE(error_of([&] { read_stage(node_data(), node); }).find("'plan': expected the node's"),
            std::string::npos);
  // The files of the stage are of the new plan's node, but nodes/ was read before.
  change("cluster_0/0.0.0.0:8081/submod_1_input.json",
         [&](Json& json) { json["plan"] = node.plan; });
  EXPECT_EQ(error_of([&] { read_stage(node_data(), node); }),
            "[package] the plan in '" + node_data().string() +
                "' was replaced while it was read: read it again.");
}

TEST_F(ReadPlan, RefusesSourcesThatDoNotFitTheSubModel) {
  const NodeConfig node = read_node(node_data(), "node_11");
  const std::string file = "cluster_0/0.0.0.0:8081/submod_1_input.json";
  const auto error = [&] { return error_of([&] { read_stage(node_data(), node); }); };
  change(file, [](Json& json) { json["inputs"][0]["source"] = {{"stage", 1}, {"output", 0}}; });
  EXPECT_NE(error().find("'inputs[0].source.stage': expected the stage before this one, got 1."),
            std::string::npos);
  change(file, [](Json& json) { json["inputs"] = Json::array(); });
  EXPECT_NE(error().find("'inputs': expected the 1 inputs of submod.pt2, got []."),
            std::string::npos);
}

}  // namespace
}  // namespace ravnest::package
