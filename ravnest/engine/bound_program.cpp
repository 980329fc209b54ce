#include "ravnest/engine/bound_program.h"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <cstdint>

#include "ravnest/base/error.h"
#include "ravnest/engine/convert.h"
#include "ravnest/graph/mode.h"

namespace ravnest::engine {

namespace {

std::vector<std::int64_t> constants(const std::vector<graph::Expr>& sizes) {
  std::vector<std::int64_t> values;
  for (const graph::Expr& size : sizes) {
    RAVNEST_CHECK(size.is_constant());
    values.push_back(size.constant());
  }
  return values;
}

// A tensor over the weight's bytes. Bytes that are not aligned for the dtype are
// copied; all others are used where they are, and kept alive by the tensor.
at::Tensor make_tensor(const graph::Weight& weight) {
  const auto sizes = constants(weight.type.sizes);
  const auto strides = constants(weight.type.strides);
  const auto options = at::TensorOptions().dtype(to_torch(weight.type.dtype));
  const auto element = element_size(weight.type.dtype);
  if (weight.storage.empty()) {
    if (graph::numel(weight.type, {}) != 0) {
      throw_invalid("[engine] weight '", weight.name,
                    "' has no data: a Program read from text cannot be run.");
    }
    return at::empty(sizes, options);
  }
  // The Program's bytes are private to it (see Bytes), so training writes here.
  auto* data = const_cast<std::byte*>(weight.storage.data()) +
               static_cast<std::size_t>(weight.type.storage_offset.constant()) * element;
  at::Tensor tensor =
      at::from_blob(data, sizes, strides, [owner = weight.storage.owner()](void*) {}, options);
  if (reinterpret_cast<std::uintptr_t>(data) % element != 0) {
    tensor = tensor.clone();
  }
  return tensor;
}

WeightMap make_weights(const graph::Program& program) {
  WeightMap weights;
  for (const graph::Weight& weight : program.weights) {
    if (&program.canonical(weight) != &weight) {
      continue;
    }
    at::Tensor tensor = make_tensor(weight);
    if (weight.kind == graph::InputKind::kParameter && weight.type.requires_grad) {
      tensor.set_requires_grad(true);
    }
    weights.emplace(weight.name, std::move(tensor));
  }
  return weights;
}

std::vector<graph::Expr> to_exprs(c10::IntArrayRef values) {
  return {values.begin(), values.end()};
}

Bytes bytes_of(const at::Tensor& tensor) {
  auto owner = std::make_shared<at::Tensor>(tensor);
  const std::span<const std::byte> view(static_cast<const std::byte*>(tensor.const_data_ptr()),
                                        tensor.nbytes());
  return {std::move(owner), view};
}

}  // namespace

BoundProgram::BoundProgram(graph::Program program)
    : program_(std::move(program)), weights_(make_weights(program_)) {}

BoundProgram::BoundProgram(graph::Program program, WeightMap weights)
    : program_(std::move(program)), weights_(std::move(weights)) {}

std::vector<c10::IValue> BoundProgram::run(std::vector<c10::IValue> inputs, Mode mode) const {
  return run_with(weights_, std::move(inputs), mode);
}

std::vector<c10::IValue> BoundProgram::run_with(const WeightMap& weights,
                                                std::vector<c10::IValue> inputs, Mode mode) const {
  return interpreter(mode).run(std::move(inputs), weights);
}

std::vector<c10::IValue> BoundProgram::run_timed(const WeightMap& weights,
                                                 std::vector<c10::IValue> inputs,
                                                 std::vector<double>& op_seconds) const {
  return interpreter(Mode::kTrain).run_timed(std::move(inputs), weights, op_seconds);
}

void BoundProgram::to(c10::Device device) {
  for (auto& [name, tensor] : weights_) {
    const bool trains = tensor.requires_grad();
    tensor = tensor.detach().to(device).set_requires_grad(trains);
  }
  const std::lock_guard lock(*mutex_);
  device_ = device;
  train_.reset();
  eval_.reset();
}

BoundStages BoundProgram::slice(const std::vector<std::size_t>& cuts) const {
  std::vector<BoundStages::Part> parts;
  for (graph::Stage& stage : graph::slice(program_, cuts)) {
    WeightMap shared;
    for (const graph::Weight& weight : stage.program.weights) {
      const std::string& name = program_.canonical(weight).name;
      shared.emplace(name, weights_.at(name));
    }
    BoundProgram bound(std::move(stage.program), std::move(shared));
    bound.device_ = device_;
    parts.push_back({std::move(bound), std::move(stage.sources), std::move(stage.eval_sources)});
  }
  return BoundStages(std::move(parts));
}

graph::Program BoundProgram::snapshot() const {
  graph::Program copy = program_;
  for (std::size_t i = 0; i < copy.weights.size(); ++i) {
    graph::Weight& weight = copy.weights[i];
    const std::string& name = program_.canonical(program_.weights[i]).name;
    const at::Tensor tensor = weights_.at(name).detach().to(c10::kCPU).contiguous();
    weight.type.sizes = to_exprs(tensor.sizes());
    weight.type.strides = to_exprs(tensor.strides());
    weight.type.storage_offset = 0;
    weight.storage_key = name;
    weight.storage = bytes_of(tensor);
  }
  return copy;
}

const graph::Graph& BoundProgram::graph(Mode mode) const {
  if (mode == Mode::kTrain) {
    return program_.graph;
  }
  if (program_.eval_graph) {
    return *program_.eval_graph;
  }
  const std::lock_guard lock(*mutex_);
  if (!eval_graph_) {
    eval_graph_ = std::make_unique<graph::Graph>(graph::eval_form(program_.graph));
  }
  return *eval_graph_;
}

at::Tensor BoundProgram::weight(const std::string& name) const {
  const graph::Weight* weight = program_.find_weight(name);
  if (weight == nullptr) {
    throw_invalid("[engine] there is no weight '", name, "'.");
  }
  return weights_.at(program_.canonical(*weight).name);
}

const Interpreter& BoundProgram::interpreter(Mode mode) const {
  const graph::Graph& source = graph(mode);
  const std::lock_guard lock(*mutex_);
  auto& compiled = mode == Mode::kTrain ? train_ : eval_;
  if (!compiled) {
    compiled = std::make_unique<Interpreter>(source, device_);
  }
  return *compiled;
}

std::vector<c10::IValue> BoundStages::run(const std::vector<c10::IValue>& inputs, Mode mode) const {
  std::vector<c10::IValue> values;
  for (const Part& part : parts_) {
    const bool eval = mode == Mode::kEval && part.program.program().eval_graph.has_value();
    std::vector<c10::IValue> given;
    for (const graph::Source& source : eval ? part.eval_sources : part.sources) {
      const auto& from = source.kind == graph::Source::Kind::kModel ? inputs : values;
      if (source.index >= from.size()) {
        throw_invalid("[engine] expected more than ", source.index, " inputs, got ", from.size(),
                      ".");
      }
      given.push_back(from[source.index]);
    }
    values = part.program.run(std::move(given), mode);
  }
  return values;
}

}  // namespace ravnest::engine
