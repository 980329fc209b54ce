#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ravnest/graph/program.h"

namespace ravnest::engine {

using WeightMap = std::unordered_map<std::string, at::Tensor>;

// Runs one graph on libtorch: each op is a boxed call through the dispatcher,
// so that autograd, devices and dtypes behave as in eager PyTorch, and a value
// is freed at its last use. Compiled once; run() may be called from any thread,
// also from several at once (each brings its own inputs and weights).
class Interpreter {
 public:
  // Resolves every operator and argument. Throws std::invalid_argument naming
  // the op when libtorch does not know it or an argument does not fit. With
  // `device`, tensors that the graph itself creates are made there.
  explicit Interpreter(const graph::Graph& graph, std::optional<c10::Device> device = {});
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // `inputs`: what the caller passes (kUser and kLiteral), in the graph's order;
  // `weights`: by the names that the graph uses, borrowed for the call. Bad
  // inputs throw std::invalid_argument naming the input; a failing operator
  // throws c10::Error naming the op.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, const WeightMap& weights) const;
  // The same, with the seconds that each op of the graph took.
  std::vector<c10::IValue> run_timed(std::vector<c10::IValue> inputs, const WeightMap& weights,
                                     std::vector<double>& op_seconds) const;

 private:
  class Compiler;
  struct Code;

  void bind(std::vector<c10::IValue>& frame, std::vector<c10::IValue> inputs,
            const WeightMap& weights) const;
  std::vector<c10::IValue> outputs_of(std::vector<c10::IValue>& frame) const;

  std::unique_ptr<const Code> code_;
};

}  // namespace ravnest::engine
