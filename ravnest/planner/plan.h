#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/graph/cost/cost.h"
#include "ravnest/graph/program.h"
#include "ravnest/planner/pool.h"

namespace ravnest::planner {

// Bytes a stage takes in training.
struct StageMemory {
  std::int64_t weights = 0;   // parameters and buffers, one version
  std::int64_t versions = 0;  // older versions of the parameters that passes in flight hold
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t activations = 0;  // of all passes in flight
  std::int64_t temporary = 0;    // the highest moment of a pass, beyond its activations

  std::int64_t total() const;
  bool operator==(const StageMemory&) const = default;
};

// A machine's part of the model: the ops [first_op, last_op) of the training graph.
struct Stage {
  std::size_t machine = 0;  // index into the pool
  std::size_t first_op = 0;
  std::size_t last_op = 0;
  // The parameters that live here, in the order of use. A tied parameter lives in the
  // first stage that uses it.
  std::vector<std::string> parameters;
  // Parameters that live in an earlier stage of this cluster, and are used here too.
  std::vector<std::string> copies;
  std::int64_t parameter_bytes = 0;
  StageMemory memory;
  std::int64_t forward_flops = 0;
  std::int64_t backward_flops = 0;
  double forward_seconds = 0.0;  // of one pass
  double backward_seconds = 0.0;
  // Over the link to the next stage, for one pass; zero for the last.
  std::int64_t forward_bytes = 0;
  std::int64_t backward_bytes = 0;  // gradients that come back
  double link_seconds = 0.0;        // the slower way, without latency
  // Updates between a pass's forward and its own update, at most: the stages after this
  // one, or up to twice as many passes in flight where links take time and RAM allows.
  std::size_t delay = 0;

  double compute_seconds() const { return forward_seconds + backward_seconds; }
  std::size_t passes_in_flight() const { return delay + 1; }
  bool operator==(const Stage&) const = default;
};

// A pipeline that holds the whole model: stages from root to leaf.
struct Cluster {
  std::vector<Stage> stages;
  double bottleneck_seconds = 0.0;  // per pass: the slowest computation or link

  bool operator==(const Cluster&) const = default;
};

// The holders of one range of parameters and of the buffers there, one in each cluster; they
// average it.
struct Ring {
  std::size_t id = 0;
  std::vector<std::string> parameters;  // in the order of use
  std::vector<std::string> buffers;     // that training changes
  std::int64_t nbytes = 0;              // of the parameters
  std::vector<std::size_t> holders;     // by cluster: index of the stage

  bool operator==(const Ring&) const = default;
};

// A machine that is left without a stage, and why.
struct Spare {
  std::size_t machine = 0;
  std::string reason;

  bool operator==(const Spare&) const = default;
};

struct Plan {
  std::vector<Machine> pool;
  std::vector<Cluster> clusters;
  std::vector<Ring> rings;
  std::vector<Spare> spares;
  std::optional<std::int64_t> batch;  // samples in a pass, where known
  graph::OptimizerKind optimizer = graph::OptimizerKind::kAdam;
  std::uint64_t seed = 0;
  // False: captured without shapes, so that parameter sizes decided, and memory, FLOPs
  // and traffic count the weights alone.
  bool costs_known = true;
  bool measured = false;         // FLOPs are seconds of a real forward, on their scale
  bool speeds_known = true;      // false: no machine gave its speed, RAM stands in for it
  std::int64_t model_bytes = 0;  // to train the whole model on one machine
  std::int64_t total_flops = 0;  // of one pass, both ways

  const Machine& machine(const Stage& stage) const { return pool[stage.machine]; }
  bool operator==(const Plan&) const = default;
};

// How many clusters: as many as can each hold the model with at least
// `kLeastClusterSize` machines, a given number, or the one with the best simulated
// throughput.
struct AutoClusters {
  bool operator==(const AutoClusters&) const = default;
};
using ClusterCount = std::variant<std::monostate, std::size_t, AutoClusters>;
inline constexpr std::size_t kLeastClusterSize = 3;

// From the start of a pass at this stage until its gradient is back and used.
double round_trip_seconds(const std::vector<Machine>& pool, const Cluster& cluster,
                          std::size_t stage);
// Between two passes: the bottleneck's, or what passes in flight allow on slow links.
double pass_seconds(const std::vector<Machine>& pool, const Cluster& cluster);

struct PlanOptions {
  std::uint64_t seed = 0;
  ClusterCount clusters;
  graph::OptimizerKind optimizer = graph::OptimizerKind::kAdam;
  std::optional<std::int64_t> batch;  // that of the capture
  std::size_t population = 0;         // of the genetic algorithm; 0: by the size of the pool
  std::size_t generations = 0;
  // Of a real forward, where there was one: seconds of every op, which replace FLOPs as the
  // measure of work, and bytes alive after it, which scale the activations.
  std::vector<double> op_seconds;
  std::int64_t kept_bytes = 0;
  // Called now and then; what it throws ends the planning.
  std::function<void()> check_interrupted;
};

// Groups machines into clusters and cuts the model for each. Deterministic for a seed.
// Throws std::invalid_argument where the pool cannot hold the model, with its size, the
// pool's and what would be enough. The Program must be well formed.
Plan make_plan(const graph::Program& program, const std::vector<Machine>& pool,
               const PlanOptions& options);

}  // namespace ravnest::planner
