#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/engine/interpreter.h"
#include "ravnest/graph/program.h"
#include "ravnest/graph/slice.h"

namespace ravnest::engine {

enum class Mode : std::uint8_t { kTrain, kEval };

class BoundStages;

// A Program together with tensors for its weights: what a caller runs, trains
// and saves. Parameters are leaf tensors, so that gradients land in their
// .grad. Tensors use the Program's own bytes where they can (a mapped file is
// not copied). run() may be called from several threads; to() and
// load_weight() may not run beside it.
class BoundProgram {
 public:
  explicit BoundProgram(graph::Program program);
  // Binds these tensors, without copying them, in place of the Program's bytes.
  BoundProgram(graph::Program program, WeightMap weights);

  // Flat inputs to flat outputs, in the graph's order.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, Mode mode) const;
  // The same with other weights: all that the graph names must be given.
  std::vector<c10::IValue> run_with(const WeightMap& weights, std::vector<c10::IValue> inputs,
                                    Mode mode) const;

  // The training graph with other weights, and the seconds that each op took.
  std::vector<c10::IValue> run_timed(const WeightMap& weights, std::vector<c10::IValue> inputs,
                                     std::vector<double>& op_seconds) const;

  // Moves the weights; what the graphs create is then made there too.
  void to(c10::Device device);

  // Cuts as graph::slice does. The stages share these tensors.
  BoundStages slice(const std::vector<std::size_t>& cuts) const;

  // The Program with the weights as they are now, to be written.
  graph::Program snapshot() const;

  const graph::Program& program() const { return program_; }
  const graph::Graph& graph(Mode mode) const;
  // Tensors by the name that graphs use; tied names share the first one's.
  const WeightMap& weights() const { return weights_; }
  at::Tensor weight(const std::string& name) const;

 private:
  const Interpreter& interpreter(Mode mode) const;

  graph::Program program_;
  WeightMap weights_;
  std::optional<c10::Device> device_;
  // Compiled on first use; guarded by `mutex_`.
  mutable std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  mutable std::unique_ptr<graph::Graph> eval_graph_;
  mutable std::unique_ptr<Interpreter> train_;
  mutable std::unique_ptr<Interpreter> eval_;
};

// The stages of a cut Program in one process, run one after the other as if they
// were the whole: routes what crosses the cuts.
class BoundStages {
 public:
  struct Part {
    BoundProgram program;
    std::vector<graph::Source> sources;
    std::vector<graph::Source> eval_sources;
  };

  explicit BoundStages(std::vector<Part> parts) : parts_(std::move(parts)) {}

  // Takes the whole model's inputs and gives its outputs.
  std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs, Mode mode) const;

  std::size_t size() const { return parts_.size(); }
  const Part& operator[](std::size_t index) const { return parts_.at(index); }
  BoundProgram& stage(std::size_t index) { return parts_.at(index).program; }

 private:
  std::vector<Part> parts_;
};

}  // namespace ravnest::engine
