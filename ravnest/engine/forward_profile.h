#pragma once

#include <cstdint>
#include <vector>

#include "ravnest/engine/bound_program.h"

namespace ravnest::engine {

// What a real forward pass took, on this machine and its threads.
struct ForwardProfile {
  std::vector<double> op_seconds;  // by op of the training graph
  std::int64_t kept_bytes = 0;     // alive after it: what autograd keeps, inputs, outputs
};

// Runs the training graph a few times on these inputs and takes the fastest of each op.
// Weights, buffers and the random state are afterwards as they were.
ForwardProfile profile_forward(const BoundProgram& program, const std::vector<c10::IValue>& inputs);

}  // namespace ravnest::engine
