#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "ravnest/base/error.h"
#include "ravnest/graph/lint.h"
#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/graph/text/text.h"
#include "ravnest/package/package.h"
#include "ravnest/package/plan_swap.h"
#include "tests/base/temporary_folder.h"
#include "tests/package/plans.h"

namespace ravnest::package {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Json json_of(const fs::path& path) { return Json::parse(content_of(path)); }

// Every file under a folder with its content.
std::map<std::string, std::string> tree_of(const fs::path& folder) {
  std::map<std::string, std::string> tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      tree[fs::relative(entry.path(), folder).string()] = content_of(entry.path());
    }
  }
  return tree;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

template <typename Run>
std::string refusal_of(Run&& run) {
  try {
    run();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(WritePlan, MakesTheTreeOfTheReference) {
  const TemporaryFolder folder;
  write_plan(make_program(), make_two_clusters(), folder.path());
  std::set<std::string> files;
  for (const auto& [name, content] : tree_of(folder.path())) {
    files.insert(name);
  }
  EXPECT_EQ(files, (std::set<std::string>{
                       "cluster_0/0.0.0.0:8080/model_inputs.json",
                       "cluster_0/0.0.0.0:8080/submod.pt2",
                       "cluster_0/0.0.0.0:8080/submod_0_input.json",
                       "cluster_0/0.0.0.0:8080/submod_0_output.json",
                       "cluster_0/0.0.0.0:8081/submod.pt2",
                       "cluster_0/0.0.0.0:8081/submod_1_input.json",
                       "cluster_0/0.0.0.0:8081/submod_1_output.json",
                       "cluster_0/0.0.0.0:8082/submod.pt2",
                       "cluster_0/0.0.0.0:8082/submod_2_input.json",
                       "cluster_0/0.0.0.0:8082/submod_2_output.json",
                       "cluster_1/0.0.0.0:8083/submod.pt2",
                       "cluster_1/0.0.0.0:8083/submod_1_input.json",
                       "cluster_1/0.0.0.0:8083/submod_1_output.json",
                       "cluster_1/0.0.0.0:8084/model_inputs.json",
                       "cluster_1/0.0.0.0:8084/submod.pt2",
                       "cluster_1/0.0.0.0:8084/submod_0_input.json",
                       "cluster_1/0.0.0.0:8084/submod_0_output.json",
                       "nodes/node_10.json",
                       "nodes/node_11.json",
                       "nodes/node_12.json",
                       "nodes/node_13.json",
                       "nodes/node_14.json",
                   }));
  EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"cluster_0", "cluster_1", "nodes"}));
}

TEST(WritePlan, StoresTheStagesThatSliceGives) {
  const TemporaryFolder folder;
  graph::Program program = make_program(std::string(kModel) + kEval);
  program.graph.out_spec = graph::flat_out_spec(3);
  program.eval_graph->out_spec = graph::flat_out_spec(1);
  write_plan(program, make_two_clusters(), folder.path());
  const auto stages = graph::slice(program, {1, 3});
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const NodeConfig node = read_node(folder.path(), concat("node_", 10 + k));
    const graph::Stage stage = read_stage(folder.path(), node);
    graph::lint(stage.program, "stage");
    EXPECT_EQ(graph::to_text(stage.program), graph::to_text(stages[k].program));
    EXPECT_EQ(stage.sources, stages[k].sources);
    EXPECT_EQ(stage.eval_sources, stages[k].eval_sources);
    for (const graph::Weight& weight : stage.program.weights) {
      EXPECT_EQ(std::to_integer<char>(weight.storage.view()[35]), weight.storage_key[0]);
    }
  }
}

TEST(WritePlan, DescribesWhereInputsComeFrom) {
  const TemporaryFolder folder;
  write_plan(make_program(std::string(kModel) + kEval), make_two_clusters(), folder.path());
  const Json input = json_of(folder.path() / "cluster_0/0.0.0.0:8082/submod_2_input.json");
  EXPECT_EQ(input.at("cluster"), 0);
  EXPECT_EQ(input.at("stage"), 2);
  EXPECT_EQ(input.at("inputs"), Json::parse(R"([
    {"name": "mask", "dtype": "bool", "shape": ["s0", 3], "source": {"model_input": 2}},
    {"name": "a", "dtype": "float32", "shape": ["s0", 3], "source": {"stage": 1, "output": 0}},
    {"name": "c", "dtype": "float32", "shape": ["s0", 3], "source": {"stage": 1, "output": 1}}
  ])"));
  EXPECT_EQ(input.at("eval_inputs"), Json::parse(R"([
    {"name": "b", "dtype": "float32", "shape": ["s0", 3], "source": {"stage": 1, "output": 0}}
  ])"));
}

TEST(WritePlan, DescribesWhereOutputsGo) {
  const TemporaryFolder folder;
  write_plan(make_program(), make_two_clusters(), folder.path());
  const Json root = json_of(folder.path() / "cluster_0/0.0.0.0:8080/submod_0_output.json");
  EXPECT_EQ(root.at("outputs"), Json::parse(R"([
    {"name": "a", "dtype": "float32", "shape": ["s0", 3], "used_by": [{"stage": 1, "input": 0}]}
  ])"));
  EXPECT_FALSE(root.contains("eval_outputs"));
  const Json leaf = json_of(folder.path() / "cluster_0/0.0.0.0:8082/submod_2_output.json");
  EXPECT_EQ(leaf.at("outputs"), Json::parse(R"([
    {"name": "f", "dtype": "float32", "shape": ["s0", 3], "used_by": []},
    {"name": null, "dtype": null, "shape": null, "items": [
      {"name": "d", "dtype": "float32", "shape": ["s0", 3]},
      {"name": "c", "dtype": "float32", "shape": ["s0", 3]}], "used_by": []},
    {"name": null, "dtype": null, "shape": null, "used_by": []}
  ])"));
}

TEST(WritePlan, TellsTheRootWhichStagesUseTheInputsOfTheModel) {
  const TemporaryFolder folder;
  write_plan(make_program(std::string(kModel) + kEval), make_two_clusters(), folder.path());
  const Json inputs = json_of(folder.path() / "cluster_0/0.0.0.0:8080/model_inputs.json");
  EXPECT_EQ(inputs.at("inputs"), Json::parse(R"([
    {"name": "x", "dtype": "float32", "shape": ["s0", 3], "used_by": [{"stage": 0, "input": 0}]},
    {"name": "flag", "dtype": null, "shape": null, "fixed": true, "used_by": []},
    {"name": "mask", "dtype": "bool", "shape": ["s0", 3], "used_by": [{"stage": 2, "input": 0}]}
  ])"));
  EXPECT_EQ(inputs.at("eval_inputs")[2].at("used_by"), Json::array());
}

TEST(WritePlan, TellsTheRootTheStateDictInTheModelsOrder) {
  const TemporaryFolder folder;
  write_plan(make_program(std::string("weight buffer \"steps\" : i64[]\n"
                                      "weight buffer \"cache\" : f32[3, 3] transient\n"
                                      "weight constant \"c\" : f32[3, 3]") +
                          kModel),
             make_two_clusters(), folder.path());
  const std::vector<StateName> names =
      read_state_dict(folder.path(), read_node(folder.path(), "node_14"));
  ASSERT_EQ(names.size(), 5U);
  EXPECT_EQ(names[0], (StateName{.name = "steps", .dtype = "int64"}));
  EXPECT_EQ(
      names[1],
      (StateName{.name = "in.weight", .dtype = "float32", .sizes = {3, 3}, .is_parameter = true}));
  EXPECT_EQ(names[4], (StateName{.name = "out.weight",
                                 .dtype = "float32",
                                 .sizes = {3, 3},
                                 .is_parameter = true,
                                 .tied_to = "in.weight"}));
}

TEST(WritePlan, LeavesShapesOpenWhereNothingIsKnown) {
  const TemporaryFolder folder;
  planner::Plan plan;
  plan.pool = make_pool(2);
  plan.clusters.push_back({.stages = {make_stage(0, 0, 1, {}), make_stage(1, 1, 2, {})}});
  write_plan(graph::parse_text(R"(graph
  input %x : ?
  %n : int = aten.sym_size.int(self=%x, dim=0)
  %y : ? = aten.add.Scalar(self=%x, other=%n)
  return %y
)"),
             plan, folder.path());
  const Json input = json_of(folder.path() / "cluster_0/0.0.0.0:8081/submod_1_input.json");
  EXPECT_EQ(input.at("inputs"), Json::parse(R"([
    {"name": "x", "dtype": null, "shape": null, "source": {"model_input": 0}},
    {"name": "n", "dtype": "int", "shape": null, "source": {"stage": 0, "output": 0}}
  ])"));
}

TEST(WritePlan, WritesTheKeysOfTheReference) {
  const TemporaryFolder folder;
  const fs::path node_data = folder.path() / "node_data";
  write_plan(make_program(), make_two_clusters(), node_data);
  Json node = json_of(node_data / "nodes/node_11.json");
  const std::string plan = node.at("plan");
  EXPECT_EQ(plan.size(), 16U);
  node.erase("plan");
  EXPECT_EQ(node.at("template_path"), (node_data / "cluster_0/0.0.0.0:8081/").string());
  node.erase("template_path");
  EXPECT_EQ(node, Json::parse(R"({
    "node_id": 11, "local_host": "0.0.0.0", "local_port": 8081,
    "rank": 0, "ring_size": 2, "cluster_length": 3,
    "param_addresses": {"0.0.0.0:8084": "middle.weight", "0.0.0.0:8083": "late.weight"},
    "ring_ids": {"1": "middle.weight", "2": "late.weight"},
    "forward_target_host": "0.0.0.0", "forward_target_port": 8082,
    "backward_target_host": "0.0.0.0", "backward_target_port": 8080,
    "node_type": "stem", "cluster": 0, "stage": 1, "sub_model": "submod.pt2",
    "cluster_nodes": [
      {"node_id": 10, "address": "0.0.0.0:8080", "inputs": [0], "eval_inputs": [0]},
      {"node_id": 11, "address": "0.0.0.0:8081", "inputs": [], "eval_inputs": []},
      {"node_id": 12, "address": "0.0.0.0:8082", "inputs": [2], "eval_inputs": [2]}],
    "providers_here": 5,
    "rings": [
      {"id": 1, "parameters": ["middle.weight"], "buffers": [],
       "members": ["0.0.0.0:8081", "0.0.0.0:8084"], "member_ids": [11, 14]},
      {"id": 2, "parameters": ["late.weight"], "buffers": [],
       "members": ["0.0.0.0:8081", "0.0.0.0:8083"], "member_ids": [11, 13]}],
    "tied": {}, "tied_copies": {}, "passes_in_flight": 2, "batch": 4
  })"));
}

TEST(WritePlan, NamesTheFirstOfTwoRangesThatGoToOneNode) {
  const TemporaryFolder folder;
  write_plan(make_program(), make_two_clusters(), folder.path());
  // Node 14 holds ranges 0 and 1, whose next holders are nodes 10 and 11; node 13 one.
  EXPECT_EQ(json_of(folder.path() / "nodes/node_14.json").at("param_addresses"),
            Json::parse(R"({"0.0.0.0:8080": "in.weight", "0.0.0.0:8081": "middle.weight"})"));
  planner::Plan plan = make_single();
  plan.rings = {{.id = 0, .parameters = {"in.weight"}, .nbytes = 36, .holders = {0}},
                {.id = 1, .parameters = {"middle.weight"}, .nbytes = 36, .holders = {0}}};
  write_plan(make_program(), plan, folder.path());
  const Json node = json_of(folder.path() / "nodes/node_15.json");
  EXPECT_EQ(node.at("param_addresses"), Json::parse(R"({"0.0.0.0:8085": "in.weight"})"));
  EXPECT_EQ(node.at("rings").size(), 2U);
}

TEST(WritePlan, GivesEqualBytesForEqualPlans) {
  const TemporaryFolder folder;
  write_plan(make_program(), make_two_clusters(), folder.path());
  const auto first = tree_of(folder.path());
  write_plan(make_program(), make_two_clusters(), folder.path());
  EXPECT_EQ(tree_of(folder.path()), first);
}

TEST(WritePlan, MarksEveryFileOfAPlan) {
  const TemporaryFolder folder;
  const auto id_of = [&](const graph::Program& program, const planner::Plan& plan) {
    write_plan(program, plan, folder.path());
    std::set<std::string> ids;
    for (const auto& [name, content] : tree_of(folder.path())) {
      if (name.ends_with(".json")) {
        ids.insert(Json::parse(content).at("plan").get<std::string>());
      }
    }
    EXPECT_EQ(ids.size(), 1U);
    return *ids.begin();
  };
  const std::string id = id_of(make_program(), make_two_clusters());
  planner::Plan other = make_two_clusters();
  other.batch = 8;
  EXPECT_NE(id_of(make_program(), other), id);
  graph::Program trained = make_program();
  trained.weights[2].storage = Bytes::take(std::vector<std::byte>(36));
  EXPECT_NE(id_of(trained, make_two_clusters()), id);
}

TEST(WritePlan, ReplacesTheOldPlanAndNothingElse) {
  const TemporaryFolder folder;
  write_plan(make_program(), make_two_clusters(), folder.path());
  std::ofstream(folder.path() / "node_configs.json") << "{}";
  std::ofstream(folder.path() / "cluster_1/mine.txt") << "in a folder of the plan";
  for (const char* name : {"cluster_x", "cluster_01", "cluster_", "clusters", "nodes_backup"}) {
    fs::create_directories(folder.path() / name);
    std::ofstream(folder.path() / name / "mine.txt") << name;
  }
  fs::create_directory_symlink(folder.path() / "cluster_x", folder.path() / "cluster_9");
  write_plan(make_program(), make_single(), folder.path());
  EXPECT_EQ(names_in(folder.path()),
            (std::set<std::string>{"cluster_0", "cluster_01", "cluster_", "cluster_9", "cluster_x",
                                   "clusters", "node_configs.json", "nodes", "nodes_backup"}));
  EXPECT_EQ(names_in(folder.path() / "nodes"), std::set<std::string>{"node_15.json"});
  EXPECT_EQ(names_in(folder.path() / "cluster_0"), std::set<std::string>{"0.0.0.0:8085"});
  EXPECT_EQ(content_of(folder.path() / "cluster_x/mine.txt"), "cluster_x");
  EXPECT_EQ(content_of(folder.path() / "node_configs.json"), "{}");
}

// Runs what must fail over an old plan, and sees that all of it stands.
template <typename Run>
void expect_old_plan_after(Run&& run) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "node_configs.json") << "{}";
  write_plan(make_program(), make_two_clusters(), folder.path());
  const auto before = tree_of(folder.path());
  EXPECT_ANY_THROW(run(folder.path()));
  EXPECT_EQ(tree_of(folder.path()), before);
  EXPECT_EQ(names_in(folder.path()).size(), 4U);
}

TEST(WritePlan, KeepsTheOldPlanWhereASubModelCannotBeSaved) {
  graph::Program program = make_program();
  program.weights[2].storage = {};  // "late.weight": the stages before it are written
  expect_old_plan_after(
      [&](const fs::path& folder) { write_plan(program, make_two_clusters(), folder); });
}

TEST(WritePlan, KeepsTheOldPlanWhereTheModelCannotBeCut) {
  const graph::Program program = graph::parse_text(R"(graph
  input %x : ?
  %a : ? = aten.neg.default(self=%x)
  %b : ? = aten.reshape.default(self=%a, shape=[3])
  %c : ? = aten.add_.Tensor(self=%a, other=1)
  %d : ? = aten.add.Tensor(self=%b, other=%c)
  return %d
)");
  planner::Plan plan;
  plan.pool = make_pool(2);
  plan.clusters.push_back({.stages = {make_stage(0, 0, 2, {}), make_stage(1, 2, 4, {})}});
  expect_old_plan_after([&](const fs::path& folder) { write_plan(program, plan, folder); });
}

TEST(WritePlan, KeepsTheOldPlanWhereTheDiskIsFull) {
  expect_old_plan_after([](const fs::path& folder) {
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit limit{1000, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_plan(make_program(), make_single(), folder);
    } catch (const Error& error) {
      ::setrlimit(RLIMIT_FSIZE, &before);
      std::signal(SIGXFSZ, handler);
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      throw;
    }
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  });
}

TEST(WritePlan, RefusesToReplaceWhatIsNotAFolder) {
  const TemporaryFolder folder;
  write_plan(make_program(), make_single(), folder.path());
  const auto before = tree_of(folder.path());
  std::ofstream(folder.path() / "cluster_1") << "mine";
  try {
    write_plan(make_program(), make_two_clusters(), folder.path());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cluster_1"), std::string::npos) << error.what();
  }
  EXPECT_EQ(content_of(folder.path() / "cluster_1"), "mine");
  fs::remove(folder.path() / "cluster_1");
  EXPECT_EQ(tree_of(folder.path()), before);
}

TEST(WritePlan, NamesTheFolderThatCannotBeWritten) {
  for (const char* path : {"/proc/node_data", "/dev/null"}) {
    try {
      write_plan(make_program(), make_single(), path);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
}

TEST(WritePlan, RefusesUnsafeAddresses) {
  const TemporaryFolder folder;
  for (const char* address : {"../../etc:80", "a/b:80", "host", "host:0", ""}) {
    planner::Plan plan = make_single();
    plan.pool[5].address = address;
    EXPECT_THROW(write_plan(make_program(), plan, folder.path()), std::invalid_argument);
  }
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(WritePlan, RefusesAPlanOfAnotherProgram) {
  const TemporaryFolder folder;
  planner::Plan plan = make_single();
  plan.clusters[0].stages[0].last_op = 5;
  EXPECT_EQ(refusal_of([&] { write_plan(make_program(), plan, folder.path()); }),
            "[package] expected a plan of this Program of 6 ops, got one of 5.");
  plan = make_two_clusters();
  plan.clusters[0].stages[1].first_op = 2;
  EXPECT_EQ(refusal_of([&] { write_plan(make_program(), plan, folder.path()); }),
            "[package] expected a stage that begins at op 1, got ops 2 to 3.");
  plan = make_single();
  plan.clusters[0].stages[0].parameters[1] = "other";
  EXPECT_EQ(refusal_of([&] { write_plan(make_program(), plan, folder.path()); }),
            "[package] expected a plan of this Program, got one with parameter 'other' in stage "
            "0, which has none of that name.");
  plan = make_two_clusters();
  plan.pool[4].address = plan.pool[0].address;
  EXPECT_EQ(refusal_of([&] { write_plan(make_program(), plan, folder.path()); }),
            "[package] expected nodes with ids and addresses of their own, got node 14 at "
            "'0.0.0.0:8080' twice.");
}

TEST(WritePlan, HasOneWriterAtATime) {
  const TemporaryFolder folder;
  const PlanSwap writing(folder.path());
  EXPECT_THROW(write_plan(make_program(), make_single(), folder.path()), Error);
}

// What a reader finds: the plan's id, or "" where there is none. Fails on a mix.
std::string seen_by_reader(const fs::path& folder) {
  std::string plan;
  std::size_t nodes = 0;
  std::size_t expected = 0;
  for (int id = 10; id < 16; ++id) {
    const std::string name = concat("node_", id);
    if (!fs::exists(folder / "nodes" / (name + ".json"))) {
      continue;
    }
    const NodeConfig node = read_node(folder, name);
    read_stage(folder, node);
    EXPECT_TRUE(plan.empty() || plan == node.plan);
    plan = node.plan;
    expected += node.stage == 0 ? node.stages : 0;
    ++nodes;
  }
  EXPECT_EQ(nodes, expected);
  return plan;
}

// Dies after each number of renames, and looks at what is left.
TEST(PlanSwap, LeavesAWholePlanOrNoneWhereverItStops) {
  const TemporaryFolder plans;
  write_plan(make_program(), make_single(), plans.path() / "new");
  const std::string new_id = seen_by_reader(plans.path() / "new");
  std::set<std::string> seen;
  for (std::size_t stop = 0;; ++stop) {
    const TemporaryFolder folder;
    write_plan(make_program(), make_two_clusters(), folder.path());
    const std::string old_id = seen_by_reader(folder.path());
    const fs::path staging = folder.path() / ".ravnest_plan";
    fs::create_directories(staging / "old");
    fs::copy(plans.path() / "new", staging / "new", fs::copy_options::recursive);
    const auto steps = replacement_steps(folder.path(), staging);
    ASSERT_EQ(steps.size(), 5U);
    for (std::size_t i = 0; i < stop; ++i) {
      fs::rename(steps[i].from, steps[i].to);
    }
    EXPECT_EQ(seen_by_reader(folder.path()), stop == 0 ? old_id : stop == 5 ? new_id : "");
    write_plan(make_program(), make_two_clusters(), folder.path());
    EXPECT_EQ(seen_by_reader(folder.path()), old_id);
    EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"cluster_0", "cluster_1", "nodes"}));
    if (stop == steps.size()) {
      break;
    }
  }
}

TEST(PlanSwap, PutsTheOldPlanBackWhereARenameFails) {
  const TemporaryFolder folder;
  write_plan(make_program(), make_two_clusters(), folder.path());
  const std::string id = seen_by_reader(folder.path());
  {
    PlanSwap swap(folder.path());
    fs::create_directories(swap.folder() / "cluster_0");
    fs::create_directories(swap.folder() / "nodes");
    // A folder of this name in the way of what is to be set aside.
    fs::create_directories(swap.folder().parent_path() / "old/cluster_0/full");
    EXPECT_THROW(swap.commit(), Error);
  }
  EXPECT_EQ(seen_by_reader(folder.path()), id);
  EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"cluster_0", "cluster_1", "nodes"}));
}

TEST(PlanSwap, ShowsReadersOnlyWholePlans) {
  const TemporaryFolder folder;
  write_plan(make_program(), make_two_clusters(), folder.path());
  std::set<std::string> ids{seen_by_reader(folder.path())};
  write_plan(make_program(), make_single(), folder.path());
  ids.insert(seen_by_reader(folder.path()));
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      write_plan(make_program(), make_two_clusters(), folder.path());
      write_plan(make_program(), make_single(), folder.path());
    }
  });
  for (int whole = 0; whole < 50;) {
    for (const char* name : {"node_12", "node_15"}) {
      try {
        const NodeConfig node = read_node(folder.path(), name);
        const graph::Stage stage = read_stage(folder.path(), node);
        EXPECT_TRUE(ids.contains(node.plan));
        EXPECT_EQ(stage.program.graph.ops.size(), node.id == 12 ? 3U : 6U);
        ++whole;
      } catch (const std::exception&) {
        // No plan at this moment, or another.
      }
    }
  }
}

}  // namespace
}  // namespace ravnest::package
