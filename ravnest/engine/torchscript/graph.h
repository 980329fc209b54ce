#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ravnest/engine/torchscript/probes.h"
#include "ravnest/engine/torchscript/value.h"
#include "ravnest/engine/torchscript/weights.h"
#include "ravnest/graph/program.h"

namespace ravnest::engine {

// Where in the user's code an op comes from.
struct Origin {
  std::string module;  // "layer1.0.conv"
  std::string source;  // "models.py:26"
  std::string where;   // the same with its folder, for errors
};

// The graph that a forward is flattened into, and the trials beside it. Ops are appended in the
// order in which forward runs them; `finish` drops those that nothing needs.
class ScriptGraph {
 public:
  ScriptGraph(ScriptWeights& weights, ScriptProbes probes);

  ScriptProbes& probes() { return probes_; }
  ScriptWeights& weights() { return weights_; }

  // A tensor the caller passes, as in the example; without one its type is unknown.
  ScriptValue add_tensor_input(const std::string& name, ScriptProbes::Trials trials);
  // A number the caller passes.
  ScriptValue add_number_input(const std::string& name, graph::ValueKind kind);
  void add_literal(const std::string& name, graph::Argument value);

  // A weight, or a tensor that becomes a constant of that name.
  ScriptValue tensor(const at::Tensor& tensor, const std::string& constant_name);
  // A new tensor with these contents at every run.
  ScriptValue fresh_copy(const at::Tensor& contents, const Origin& origin);

  // Calls an ATen operator; missing arguments take their defaults. One value per result; a list of
  // tensors has `list_length` of them where the trials do not tell.
  std::vector<ScriptValue> call(const std::string& name, const std::string& overload,
                                std::vector<ScriptValue> arguments, const Origin& origin,
                                std::optional<std::size_t> list_length = {});
  // Computes a number: "_operator.mul", or an ATen operator on sizes. Arguments are named in order.
  ScriptValue compute(const std::string& target, const std::vector<std::string>& names,
                      const std::vector<ScriptValue>& arguments, graph::ValueKind kind,
                      std::optional<ScriptProbes::Trials> trials, const Origin& origin);

  graph::ValueKind kind_of(graph::ValueId id) const { return graph_.value(id).kind; }
  bool requires_grad(graph::ValueId id) const { return with_gradient_.contains(id); }

  // Turns a value into an argument of an op of this type.
  graph::Argument to_argument(const ScriptValue& value, const c10::Type& type,
                              const Origin& origin);
  // Turns a leaf of the result into an output.
  void add_output(const ScriptValue& value, const Origin& origin);
  void set_specs(std::string in_spec, std::string out_spec);

  // The graph with only the ops that count and with names. The object is used up.
  graph::Graph finish();

 private:
  graph::ValueId add_value(const std::string& name, graph::ValueKind kind);
  ScriptValue add_result(const std::string& name, const c10::Type& type, const Origin& origin,
                         const ScriptProbes::Trials* trials, std::optional<std::size_t> length,
                         graph::Op& op);
  ScriptValue add_tensor_result(const std::string& name, const ScriptProbes::Trials* trials,
                                graph::Result& result);
  void track_gradient(const c10::OperatorHandle& op, const graph::Op& call);
  graph::Argument to_list(const ScriptValue& value, const c10::Type& element, const Origin& origin);
  graph::ValueId weight_value(std::size_t index);

  ScriptWeights& weights_;
  ScriptProbes probes_;
  graph::Graph graph_;
  std::vector<bool> has_effect_;  // per op
  std::unordered_map<std::size_t, graph::ValueId> weight_values_;
  std::unordered_set<graph::ValueId> with_gradient_;
  // Numbers computed already, by op and arguments.
  std::unordered_map<std::string, graph::ValueId> numbers_;
};

}  // namespace ravnest::engine
