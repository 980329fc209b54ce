#pragma once

#include <string>
#include <vector>

#include "ravnest/planner/plan.h"

namespace ravnest::planner {

// Plans made by hand, for what only looks at a plan.

inline Machine make_machine(std::int64_t id, double ram_gb = 8, double mbps = 10) {
  Machine machine;
  machine.id = id;
  machine.address = "0.0.0.0:" + std::to_string(8080 + id);
  machine.ram_gb = ram_gb;
  machine.mbps = mbps;
  return machine;
}

inline Stage make_stage(std::size_t machine, std::vector<std::string> parameters) {
  Stage stage;
  stage.machine = machine;
  stage.first_op = machine * 4;
  stage.last_op = machine * 4 + 4;
  stage.parameters = std::move(parameters);
  stage.parameter_bytes = 1000;
  stage.memory = {.weights = 1'000'000'000,
                  .versions = 200'000'000,
                  .gradients = 300'000'000,
                  .optimizer = 400'000'000,
                  .activations = 50'000'000,
                  .temporary = 6'000'000};
  stage.forward_flops = 100;
  stage.backward_flops = 200;
  stage.forward_seconds = 0.1;
  stage.backward_seconds = 0.2;
  stage.forward_bytes = 64'000;
  stage.backward_bytes = 32'000;
  stage.link_seconds = 0.05;
  return stage;
}

inline void close_cluster(Cluster& cluster) {
  for (std::size_t k = 0; k < cluster.stages.size(); ++k) {
    cluster.stages[k].delay = cluster.stages.size() - 1 - k;
  }
  cluster.stages.back().forward_bytes = 0;
  cluster.stages.back().backward_bytes = 0;
  cluster.stages.back().link_seconds = 0.0;
  cluster.bottleneck_seconds = 0.3;
}

// Three machines, as in the reference's walkthrough.
inline Plan make_walkthrough() {
  Plan plan;
  plan.pool = {make_machine(0), make_machine(1), make_machine(2)};
  plan.clusters.push_back(
      {.stages = {make_stage(0, {"conv2d_1.weight", "conv2d_1.bias"}),
                  make_stage(1, {"dense_1.weight"}), make_stage(2, {"bn_3.weight"})}});
  close_cluster(plan.clusters[0]);
  plan.rings = {
      {.id = 0, .parameters = {"conv2d_1.weight", "conv2d_1.bias"}, .nbytes = 1000, .holders = {0}},
      {.id = 1, .parameters = {"dense_1.weight"}, .nbytes = 1000, .holders = {1}},
      {.id = 2, .parameters = {"bn_3.weight"}, .nbytes = 1000, .holders = {2}}};
  plan.batch = 64;
  plan.total_flops = 900;
  plan.model_bytes = 5'000'000'000;
  return plan;
}

// The six nodes of the reference's second log: cluster 0 is nodes 1, 2, 5 and cluster 1
// nodes 0, 3, 4.
inline Plan make_two_clusters() {
  Plan plan = make_walkthrough();
  for (std::int64_t id = 3; id < 6; ++id) {
    plan.pool.push_back(make_machine(id));
  }
  plan.clusters.push_back(plan.clusters[0]);
  const std::vector<std::vector<std::size_t>> members = {{1, 2, 5}, {0, 3, 4}};
  for (std::size_t c = 0; c < 2; ++c) {
    for (std::size_t k = 0; k < 3; ++k) {
      plan.clusters[c].stages[k].machine = members[c][k];
    }
  }
  for (Ring& ring : plan.rings) {
    ring.holders.push_back(ring.holders[0]);
  }
  return plan;
}

// Node 0 alone, and nodes 1 and 2 in a row: two ranges have the same next holder.
inline Plan make_unequal_clusters() {
  Plan plan;
  plan.pool = {make_machine(0), make_machine(1), make_machine(2)};
  plan.clusters.push_back({.stages = {make_stage(0, {"a", "b"})}});
  plan.clusters.push_back({.stages = {make_stage(1, {"a"}), make_stage(2, {"b"})}});
  close_cluster(plan.clusters[0]);
  close_cluster(plan.clusters[1]);
  plan.rings = {{.id = 0, .parameters = {"a"}, .nbytes = 500, .holders = {0, 0}},
                {.id = 1, .parameters = {"b"}, .nbytes = 500, .holders = {0, 1}}};
  return plan;
}

}  // namespace ravnest::planner
