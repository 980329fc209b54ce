#pragma once

#include <optional>
#include <string>

#include "ravnest/engine/torchscript/evaluator.h"

namespace ravnest::engine {

// A call of an ATen operator; an empty name passes the first argument on.
struct TensorCall {
  std::string name;
  std::string overload;
  ScriptEvaluator::Values arguments;
};

// A node that gives tensors as a call of ATen: operators that exist in TorchScript alone become
// what they mean. Refuses by name what has no counterpart.
TensorCall translate(const ScriptEvaluator& evaluator, const torch::jit::Node& node,
                     const ScriptEvaluator::Values& arguments);

// x[i] = number: the dtype of the tensor made for it does not matter when it is copied into
// another, so that it need not be known.
void adapt_unknown_fill(const torch::jit::Node& node, ScriptEvaluator::Values& arguments);

// How many tensors a node's list has, as far as the code says so: by what unpacks it, or by its
// arguments.
std::optional<std::size_t> list_length(const torch::jit::Node& node,
                                       const ScriptEvaluator::Values& arguments);

}  // namespace ravnest::engine
