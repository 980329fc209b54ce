#pragma once

#include <string>
#include <vector>

#include "ravnest/graph/text/text.h"
#include "ravnest/planner/plan.h"

namespace ravnest::package {

// Six ops: three layers, of which the last is tied to the first, a mask that goes straight
// to the last stage, and a skip from the first op to the last.
inline constexpr const char* kModel = R"(
weight parameter "in.weight" : f32[3, 3]
weight parameter "middle.weight" : f32[3, 3]
weight parameter "late.weight" : f32[3, 3]
weight parameter "out.weight" : f32[3, 3] key "in.weight"
graph
  symbol s0 = 4 in [2, inf]
  parameter %in : f32[3, 3] = "in.weight"
  parameter %middle : f32[3, 3] = "middle.weight"
  parameter %late : f32[3, 3] = "late.weight"
  input %x : f32[s0, 3]
  literal "flag" = true
  input %mask : bool[s0, 3]
  %a : f32[s0, 3] = aten.linear.default(input=%x, weight=%in)
  %b : f32[s0, 3] = aten.linear.default(input=%a, weight=%middle)
  %c : f32[s0, 3] = aten.linear.default(input=%b, weight=%late)
  %d : f32[s0, 3] = aten.linear.default(input=%c, weight=%in)
  %e : f32[s0, 3] = aten.add.Tensor(self=%d, other=%a)
  %f : f32[s0, 3] = aten.mul.Tensor(self=%e, other=%mask)
  return %f, [%d, %c], none
)";

// Its evaluation, where the mask is not used and "late" is left out.
inline constexpr const char* kEval = R"(graph eval
  symbol s0 = 4 in [2, inf]
  parameter %in : f32[3, 3] = "in.weight"
  parameter %middle : f32[3, 3] = "middle.weight"
  input %x : f32[s0, 3]
  literal "flag" = true
  input %mask : bool[s0, 3]
  %a : f32[s0, 3] = aten.linear.default(input=%x, weight=%in)
  %b : f32[s0, 3] = aten.linear.default(input=%a, weight=%middle)
  %d : f32[s0, 3] = aten.linear.default(input=%b, weight=%in)
  return %d
)";

inline graph::Program make_program(const std::string& text = kModel) {
  graph::Program program = graph::parse_text(text);
  for (graph::Weight& weight : program.weights) {
    const std::string& key = weight.storage_key;
    weight.storage = Bytes::take(std::vector<std::byte>(36, static_cast<std::byte>(key[0])));
  }
  return program;
}

inline planner::Stage make_stage(std::size_t machine, std::size_t first, std::size_t last,
                                 std::vector<std::string> parameters,
                                 std::vector<std::string> copies = {}) {
  planner::Stage stage;
  stage.machine = machine;
  stage.first_op = first;
  stage.last_op = last;
  stage.parameters = std::move(parameters);
  stage.copies = std::move(copies);
  return stage;
}

// Machines with ids 10, 11, … at 0.0.0.0:8080, 0.0.0.0:8081, ….
inline std::vector<planner::Machine> make_pool(std::size_t machines) {
  std::vector<planner::Machine> pool(machines);
  for (std::size_t i = 0; i < machines; ++i) {
    pool[i].id = static_cast<std::int64_t>(10 + i);
    pool[i].address = "0.0.0.0:" + std::to_string(8080 + i);
    pool[i].ram_gb = 8;
    pool[i].mbps = 10;
  }
  return pool;
}

// Cluster 0 on machines 0 to 2, cluster 1 on machines 3 and 4, cut elsewhere.
inline planner::Plan make_two_clusters() {
  planner::Plan plan;
  plan.pool = make_pool(6);
  plan.batch = 4;
  plan.clusters.push_back({.stages = {make_stage(0, 0, 1, {"in.weight"}),
                                      make_stage(1, 1, 3, {"middle.weight", "late.weight"}),
                                      make_stage(2, 3, 6, {}, {"in.weight"})}});
  plan.clusters.push_back({.stages = {make_stage(4, 0, 2, {"in.weight", "middle.weight"}),
                                      make_stage(3, 2, 6, {"late.weight"}, {"in.weight"})}});
  for (planner::Cluster& cluster : plan.clusters) {
    for (std::size_t k = 0; k < cluster.stages.size(); ++k) {
      cluster.stages[k].delay = cluster.stages.size() - 1 - k;
    }
  }
  plan.rings = {
      {.id = 0, .parameters = {"in.weight"}, .nbytes = 36, .holders = {0, 0}},
      {.id = 1, .parameters = {"middle.weight"}, .nbytes = 36, .holders = {1, 0}},
      {.id = 2, .parameters = {"late.weight"}, .nbytes = 36, .holders = {1, 1}},
  };
  plan.spares = {{.machine = 5, .reason = "not needed"}};
  return plan;
}

// The whole model on machine 5.
inline planner::Plan make_single() {
  planner::Plan plan;
  plan.pool = make_pool(6);
  plan.clusters.push_back(
      {.stages = {make_stage(5, 0, 6, {"in.weight", "middle.weight", "late.weight"})}});
  plan.rings = {{.id = 0,
                 .parameters = {"in.weight", "middle.weight", "late.weight"},
                 .nbytes = 108,
                 .holders = {0}}};
  return plan;
}

}  // namespace ravnest::package
