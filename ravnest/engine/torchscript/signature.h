#pragma once

#include <string>
#include <vector>

#include "ravnest/engine/torchscript/evaluator.h"
#include "ravnest/engine/torchscript/torchscript.h"

namespace ravnest::engine {

// How many dimensions vary between trials.
enum class BatchScope : std::uint8_t {
  kNone,         // all sizes are fixed
  kFirstTensor,  // the first size of the first tensor
  kAllTensors,   // and of all tensors that share it
};

// The first size of the first tensor among the examples; 0 if there is none.
std::int64_t example_batch(const ImportOptions& options);

// The arguments of forward and the inputs of the graph that they are, and the structure of both.
struct BoundInputs {
  std::vector<ScriptValue> arguments;
  std::string in_spec;
  std::string names;  // of the positional ones, "x,mask"
};

// Makes the inputs of the graph from the examples, or from forward's declaration without them.
// Throws std::invalid_argument naming the argument that does not fit.
BoundInputs bind_inputs(ScriptEvaluator& evaluator, const c10::FunctionSchema& schema,
                        const ImportOptions& options, BatchScope scope);

// Makes the outputs of the graph from what forward returned; returns their structure.
std::string bind_outputs(ScriptEvaluator& evaluator, const ScriptValue& result);

}  // namespace ravnest::engine
