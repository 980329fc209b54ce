#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/graph/cost/cost.h"
#include "ravnest/graph/program.h"

namespace ravnest::graph {

// A part of the model, as the module tree names it, and what falls to it.
struct Place {
  std::string path;  // "layer4.0"; empty: what the model's own forward does
  std::int64_t ops = 0;
  std::int64_t parameters = 0;  // elements
  std::int64_t parameter_bytes = 0;
  std::int64_t activation_bytes = 0;  // what its ops are the first to keep
  std::int64_t flops = 0;
  std::int64_t backward_flops = 0;
  // Of the whole: the mean of its shares of memory (weights, gradients,
  // activations) and of FLOPs; of memory alone where there are no FLOPs.
  double share = 0.0;
};

struct OperatorCount {
  std::string target;
  std::int64_t count = 0;
};

struct StatisticsOptions {
  std::optional<std::int64_t> batch;  // that of the example the model was captured with
  OptimizerKind optimizer = OptimizerKind::kAdam;
};

// What a Program is made of and what training it costs.
struct Statistics {
  std::int64_t parameters = 0;  // elements, tied ones once
  std::int64_t parameter_bytes = 0;
  std::int64_t trainable_parameters = 0;
  std::int64_t buffers = 0;  // elements; constants included
  std::int64_t buffer_bytes = 0;
  std::int64_t ops = 0;
  std::vector<OperatorCount> operators;  // the most frequent first

  std::optional<std::int64_t> batch;           // that the numbers below are for, where known
  std::optional<std::int64_t> captured_batch;  // that of the example
  bool batch_is_dynamic = false;
  // False: captured without shapes. Then FLOPs are zero, and memory is that of
  // the weights alone.
  bool costs_known = true;
  MemoryEstimate memory;
  std::int64_t flops = 0;
  std::int64_t backward_flops = 0;
  // A division of the model into parts, the heaviest first: a part with a large
  // share is given by its children instead.
  std::vector<Place> places;
};

// Of the training graph. Throws std::invalid_argument for a batch that the model
// does not take. The Program must be well formed.
[[nodiscard]] Statistics statistics(const Program& program, const StatisticsOptions& options);

}  // namespace ravnest::graph
