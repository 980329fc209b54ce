#pragma once

#include <optional>
#include <string>

#include "ravnest/engine/torchscript/evaluator.h"

namespace ravnest::engine {

// The size of a dimension: a constant where all trials agree, else computed at run time.
ScriptValue size_of(ScriptEvaluator& evaluator, graph::ValueId tensor, std::int64_t dim);

// The number that an op of sizes ("_operator.mul") gives for these: a constant where all trials
// agree, else computed at run time.
ScriptValue compute_number(ScriptEvaluator& evaluator, const std::string& target,
                           const ScriptEvaluator::Values& arguments, graph::ValueKind kind,
                           std::optional<ScriptProbes::Trials> trials);

// A node of TorchScript on numbers as an op of sizes, if there is one.
struct NumberOp {
  std::string target;
  std::size_t arity = 2;
};
std::optional<NumberOp> find_number_op(const torch::jit::Node& node);

// Whether a value is a number, known or computed at run time.
bool is_number(const ScriptGraph& graph, const ScriptValue& value);

// Computes with tensors that stand for numbers as with the numbers, which is what the model had
// before tracing. False if the node is something else.
bool evaluate_number_tensors(ScriptEvaluator& evaluator, const torch::jit::Node& node,
                             const ScriptEvaluator::Values& arguments);

// Turns tensors that stand for numbers into tensors, in lists too.
ScriptValue with_tensors(ScriptEvaluator& evaluator, const ScriptValue& value);

}  // namespace ravnest::engine
