#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ravnest/planner/plan.h"

namespace ravnest::planner {

// "root", "stem" or "leaf". The only stage of a cluster is its root.
std::string_view role_of(const Cluster& cluster, std::size_t stage);

// The rings that average what this stage holds, in the plan's order.
std::vector<const Ring*> rings_of(const Plan& plan, std::size_t cluster, std::size_t stage);

// For every range that a stage holds: the address of the next cluster's holder (its own
// where there is one cluster) and the range's first parameter. Of ranges with the same
// next holder the first is listed.
std::vector<std::pair<std::string, std::string>> next_holders(const Plan& plan, std::size_t cluster,
                                                              std::size_t stage);

// What a cluster's passes wait for: the computation of a stage, or its link to the next.
struct Slowest {
  std::size_t stage = 0;
  bool is_link = false;

  bool operator==(const Slowest&) const = default;
};
Slowest slowest_of(const Cluster& cluster);

// The stage's part of a pass's FLOPs, 0 to 1; nothing where they are not known.
std::optional<double> flops_share(const Plan& plan, const Stage& stage);

// Expected samples a second; nothing where the batch or the times are not known. The
// clusters of a plan train side by side, each on its own data.
std::optional<double> samples_per_second(const Plan& plan, const Cluster& cluster);
std::optional<double> samples_per_second(const Plan& plan);

// The log of the reference, by node:
//   Node(0, Cluster(0))
//   self.IP(0.0.0.0:8080)
//   Ring IDs({0: 'conv2d_1.weight'})
//   Address2Param({'0.0.0.0:8080': 'conv2d_1.weight'})
// in the order of the ids, with two blank lines between nodes.
std::string reference_log(const Plan& plan);

// The plan as one JSON object. Sizes are in bytes, times in seconds of one pass.
//   batch                samples in a pass, or null
//   optimizer, seed      what the plan was made for and with
//   costs_known, speeds_known
//   model_bytes          to train the whole model on one machine
//   total_flops          of a pass, both ways
//   samples_per_second   expected of all clusters together, or null
//   clusters: [{
//     cluster            its index
//     bottleneck: {seconds, stage, kind: "compute" | "link"}
//     samples_per_second
//     stages: [{
//       stage, node, address, role
//       ops: [first, last)
//       parameters       names of those that live here, in the order of use
//       copies           names of those that live in an earlier stage
//       parameter_bytes
//       memory: {weights, versions, gradients, optimizer, activations, temporary, total}
//       ram_bytes        what the machine offers
//       forward_flops, backward_flops
//       flops_share      of the pass, 0 to 1, or null where FLOPs are not known
//       forward_seconds, backward_seconds
//       link: null, or {forward_bytes, backward_bytes, seconds, mbps, latency_ms}
//                        to the next stage
//       delay            updates between a pass's forward and its own update
//       passes_in_flight
//     }]
//   }]
//   rings: [{id, parameters, bytes, holders: [{cluster, stage, node, address}]}]
//   spares: [{node, address, ram_bytes, reason}]
std::string plan_json(const Plan& plan);

}  // namespace ravnest::planner
