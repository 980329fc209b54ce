#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "ravnest/engine/torchscript/graph.h"
#include "ravnest/engine/torchscript/objects.h"
#include "ravnest/engine/torchscript/value.h"

namespace ravnest::engine {

// Runs `forward` of a TorchScript module in one mode, on values that are known now or computed
// later: what is known is decided at once, tensor operators go into the ScriptGraph. Calls are
// followed, branches chosen, loops unrolled; what each node does is in script_nodes.h. Throws
// std::invalid_argument, naming the line, where the code cannot be flattened.
class ScriptEvaluator {
 public:
  using Values = std::vector<ScriptValue>;

  ScriptEvaluator(ScriptGraph& graph, const torch::jit::Module& module, bool training);
  ScriptEvaluator(const ScriptEvaluator&) = delete;
  ScriptEvaluator& operator=(const ScriptEvaluator&) = delete;

  // What forward returns; buffers that it assigned are written at the end.
  ScriptValue run_forward(Values arguments);

  // For the nodes:
  ScriptGraph& graph() { return graph_; }
  ScriptObjects& objects() { return objects_; }
  const ScriptValue& value(const torch::jit::Value* value) const;
  Values inputs(const torch::jit::Node& node) const;
  void bind(const torch::jit::Value* output, ScriptValue value);
  // Binds every output to the same.
  void bind_all(const torch::jit::Node& node, const ScriptValue& value);
  void evaluate_block(const torch::jit::Block& block);
  ScriptValue call(torch::jit::Function& function, Values arguments);

  // A constant of any type; tensors in it are constants of that name.
  ScriptValue lift(const c10::IValue& value, const std::string& name);

  // Where the node that is evaluated now stands.
  Origin origin() const;
  [[noreturn]] void refuse(const std::string& expected, const std::string& got) const;
  // A value that the node evaluated now cannot tell.
  ScriptValue unknown_here(const std::string& reason) const;

  // Inside torch.no_grad().
  int no_grad_depth = 0;

 private:
  // One call that is being evaluated.
  struct Frame {
    std::unordered_map<const torch::jit::Value*, ScriptValue> values;
    std::string module;
    const torch::jit::Node* node = nullptr;  // the last one that stands in a line
  };

  void evaluate(const torch::jit::Node& node);

  ScriptGraph& graph_;
  torch::jit::Module module_;
  ScriptObjects objects_;
  std::deque<Frame> frames_;
  std::int64_t steps_ = 0;
};

}  // namespace ravnest::engine
