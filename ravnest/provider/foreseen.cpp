#include "ravnest/provider/foreseen.h"

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/engine/convert.h"

namespace ravnest::provider {

namespace {

// A batch may be so many times as large as the one that the plan was made for; small ones more.
constexpr std::size_t kRoom = 16;
constexpr std::size_t kLeastTensor = std::size_t{256} << 20;
constexpr std::size_t kLeastMessage = std::size_t{512} << 20;
constexpr std::size_t kLeastHeld = std::size_t{1} << 30;
// To a member that was away travels a parameter with what the optimizer keeps for it, no more than
// three tensors, and the momentum of averaging.
constexpr std::size_t kWithState = 5;

// As it is averaged: floats as float32, complex numbers as two of them, integers as int64.
std::size_t averaged_bytes(const graph::TensorType& type) {
  const std::size_t width = graph::element_size(type.dtype);
  const auto nbytes = static_cast<std::size_t>(graph::nbytes(type, {}).value_or(0));
  return width == 0 ? 0 : nbytes / width * std::clamp<std::size_t>(width, 4, 8);
}

// By their place among the outputs of the stage before, or among the `wanted` inputs of the model.
std::vector<graph::Value> values_from(const graph::Graph& graph,
                                      const std::vector<graph::Source>& sources,
                                      graph::Source::Kind kind,
                                      const std::vector<std::size_t>& wanted) {
  std::vector<graph::Value> values;
  const auto inputs = graph.user_inputs();
  for (std::size_t i = 0; i < std::min(inputs.size(), sources.size()); ++i) {
    const bool is_given = inputs[i]->kind == graph::InputKind::kUser;
    if (sources[i].kind != kind || !is_given) {
      continue;
    }
    std::size_t place = sources[i].index;
    if (kind == graph::Source::Kind::kModel) {
      place = static_cast<std::size_t>(std::ranges::find(wanted, place) - wanted.begin());
    }
    if (place >= values.size()) {
      values.resize(place + 1);
    }
    values[place] = graph.value(inputs[i]->value);
  }
  return values;
}

std::vector<graph::Value> outputs_of(const graph::Graph& graph) {
  std::vector<graph::Value> values;
  for (const graph::Argument& output : graph.outputs) {
    const graph::Ref* ref = output.find_ref();
    values.push_back(ref != nullptr ? graph.value(ref->id) : graph::Value());
  }
  return values;
}

bool fits(const at::Tensor& tensor, const graph::TensorType& type) {
  if (tensor.scalar_type() != engine::to_torch(type.dtype) ||
      static_cast<std::size_t>(tensor.dim()) != type.sizes.size()) {
    return false;
  }
  for (std::size_t i = 0; i < type.sizes.size(); ++i) {
    const auto expected = type.sizes[i].evaluate({});
    if (expected && *expected != tensor.size(static_cast<std::int64_t>(i))) {
      return false;
    }
  }
  return true;
}

std::string describe(const graph::TensorType& type) {
  std::string text(graph::long_name_of(type.dtype));
  for (std::size_t i = 0; i < type.sizes.size(); ++i) {
    text += (i == 0 ? "[" : ", ") + type.sizes[i].to_string();
  }
  return text + (type.sizes.empty() ? "[]" : "]");
}

void check_tensor(const at::Tensor& tensor, const graph::Value& expected, const char* what) {
  if (expected.type.is_known() && !fits(tensor, expected.type)) {
    throw_invalid("[provider] ", what, "'", expected.name, "' came as ",
                  graph::long_name_of(engine::from_torch(tensor.scalar_type())), tensor.sizes(),
                  ", the plan has ", describe(expected.type), ".");
  }
}

void check(const std::vector<c10::IValue>& values, const std::vector<graph::Value>& expected) {
  if (values.size() < expected.size()) {
    throw_invalid("[provider] expected ", expected.size(), " values in a message, got ",
                  values.size(), ".");
  }
  for (std::size_t i = 0; i < std::min(values.size(), expected.size()); ++i) {
    const bool is_tensor = values[i].isTensor() && values[i].toTensor().defined();
    if (expected[i].name.empty()) {
      continue;  // not used here
    }
    if (is_tensor != (expected[i].kind == graph::ValueKind::kTensor)) {
      throw_invalid("[provider] '", expected[i].name, "' came as ", values[i].tagKind(),
                    ", the plan has ", is_tensor ? "a number." : "a tensor.");
    }
    if (is_tensor) {
      check_tensor(values[i].toTensor(), expected[i], "");
    }
  }
}

}  // namespace

Foreseen::Foreseen(const package::NodeConfig& node, const graph::Stage& stage) {
  using Kind = graph::Source::Kind;
  const graph::Program& program = stage.program;
  const bool has_eval = program.eval_graph.has_value();
  const graph::Graph& eval = has_eval ? *program.eval_graph : program.graph;
  const auto& eval_sources = has_eval ? stage.eval_sources : stage.sources;
  const package::ClusterMate& self = node.mates.at(node.stage);
  values_ = values_from(program.graph, stage.sources, Kind::kPrevious, {});
  eval_values_ = values_from(eval, eval_sources, Kind::kPrevious, {});
  inputs_ = values_from(program.graph, stage.sources, Kind::kModel, self.inputs);
  eval_inputs_ = values_from(eval, eval_sources, Kind::kModel, self.eval_inputs);
  outputs_ = outputs_of(program.graph);
  for (const graph::Input& input : program.graph.inputs) {
    if (input.kind == graph::InputKind::kParameter) {
      parameters_.emplace(input.target, program.graph.value(input.value));
    }
  }
  // The root hears from whoever feeds it, and from the leaf, of values that are not in its part.
  is_open_ = node.stage == 0;
  const auto add = [&](const Values& values, const graph::Graph& graph) {
    std::size_t sum = 0;
    for (const graph::Value& value : values) {
      const bool is_number = value.kind != graph::ValueKind::kTensor;
      const auto bytes = is_number || value.name.empty() ? std::optional<std::int64_t>(8)
                         : value.type.is_known()         ? nbytes(value.type, graph.hints())
                                                         : std::nullopt;
      is_open_ = is_open_ || !bytes;
      largest_ = std::max(largest_, static_cast<std::size_t>(bytes.value_or(0)));
      sum += static_cast<std::size_t>(bytes.value_or(0));
    }
    message_ = std::max(message_, sum);
  };
  add(values_, program.graph);
  add(inputs_, program.graph);
  add(outputs_, program.graph);
  add(eval_values_, eval);
  add(eval_inputs_, eval);
  for (const graph::Weight& weight : program.weights) {
    fixed_ += averaged_bytes(weight.type);
  }
  channels_ = 4 + node.mates.size();
  for (const package::NodeRing& ring : node.rings) {
    channels_ += 2 * ring.members.size();
  }
}

void Foreseen::check_values(const std::vector<c10::IValue>& values, bool is_training) const {
  check(values, is_training ? values_ : eval_values_);
}

void Foreseen::check_inputs(const std::vector<c10::IValue>& inputs, bool is_training) const {
  check(inputs, is_training ? inputs_ : eval_inputs_);
}

void Foreseen::check_gradients(const std::vector<at::Tensor>& gradients) const {
  for (std::size_t i = 0; i < std::min(gradients.size(), outputs_.size()); ++i) {
    if (gradients[i].defined()) {
      check_tensor(gradients[i], outputs_[i], "the gradient of ");
    }
  }
}

void Foreseen::check_shared(const std::vector<std::string>& names,
                            const std::vector<at::Tensor>& tensors) const {
  if (names.size() != tensors.size()) {
    throw_invalid("[provider] expected ", names.size(), " parameters that are shared, got ",
                  tensors.size(), ".");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = parameters_.find(names[i]);
    if (found != parameters_.end() && tensors[i].defined()) {
      check_tensor(tensors[i], found->second, "parameter ");
    }
  }
}

Foreseen::Bounds Foreseen::bounds(std::size_t passes, std::size_t machine_bytes) const {
  Bounds bounds;
  transport::Limits& limits = bounds.limits;
  if (!is_open_) {
    limits.tensor_bytes = std::clamp(kRoom * largest_, kLeastTensor, limits.tensor_bytes);
    limits.message_bytes = std::clamp(kRoom * message_, kLeastMessage, limits.message_bytes);
  }
  limits.tensor_bytes = std::max({limits.tensor_bytes, largest_, kWithState * fixed_});
  limits.message_bytes = std::max({limits.message_bytes, message_, kWithState * fixed_});
  bounds.window = passes * limits.message_bytes;
  limits.held_bytes = std::min(channels_ * bounds.window, std::max(machine_bytes / 2, kLeastHeld));
  return bounds;
}

}  // namespace ravnest::provider
