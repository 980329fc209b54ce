#include "ravnest/engine/stage/stage.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/fault_point.h"
#include "ravnest/engine/optim/compensation.h"
#include "ravnest/engine/stage/finite.h"
#include "ravnest/graph/aliasing.h"

namespace ravnest::engine {

namespace {

at::Generator& default_generator() {
  return const_cast<at::Generator&>(at::detail::getDefaultCPUGenerator());
}

bool is_differentiable(const at::Tensor& tensor) {
  return tensor.is_floating_point() || tensor.is_complex();
}

// Inputs become leaves, so that their gradients can be sent back.
void make_leaves(std::vector<c10::IValue>& inputs) {
  for (c10::IValue& input : inputs) {
    if (input.isTensor() && input.toTensor().defined()) {
      const at::Tensor given = input.toTensor();
      at::Tensor leaf = given.detach();
      leaf.set_requires_grad(given.requires_grad());
      input = leaf;
    }
  }
}

std::vector<c10::IValue> cut_off(const std::vector<c10::IValue>& values) {
  std::vector<c10::IValue> result;
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) {
      const at::Tensor& tensor = value.toTensor();
      result.emplace_back(tensor.detach().set_requires_grad(tensor.requires_grad()));
    } else {
      result.push_back(value);
    }
  }
  return result;
}

}  // namespace

Stage::Stage(BoundProgram program, StageOptions options, ApplyStep apply)
    : program_(std::move(program)),
      options_(std::move(options)),
      apply_(std::move(apply)),
      versions_(program_) {
  if (options_.update_frequency < 1) {
    throw_invalid("[stage] expected an update after 1 backward or more, got ",
                  options_.update_frequency, ".");
  }
  for (const auto& [name, tensor] : versions_.current()->weights) {
    if (tensor.requires_grad() && !options_.copies.contains(name)) {
      trained_.push_back(name);
    }
  }
  std::ranges::sort(trained_);
  find_changed();
}

void Stage::find_changed() {
  const graph::Graph& graph = program_.graph(Mode::kTrain);
  std::set<graph::ValueId> changed;
  for (const auto& roots : graph::Aliasing(graph).changed) {
    changed.insert(roots.begin(), roots.end());
  }
  std::size_t position = 0;  // among the inputs that a caller gives
  for (const graph::Input& input : graph.inputs) {
    const bool is_given =
        input.kind == graph::InputKind::kUser || input.kind == graph::InputKind::kLiteral;
    if (changed.contains(input.value)) {
      if (input.kind == graph::InputKind::kBuffer) {
        changed_buffers_.push_back(input.target);
      } else if (is_given) {
        changed_inputs_.insert(position);
      }
    }
    position += is_given ? 1 : 0;
  }
}

std::shared_ptr<const WeightVersion> Stage::version_for_forward() const {
  if (!predict_ || passes_.empty()) {
    return versions_.current();
  }
  const at::NoGradGuard no_grad;
  auto predicted = std::make_shared<WeightVersion>(*versions_.current());
  const double delay =
      static_cast<double>(passes_.size()) / static_cast<double>(options_.update_frequency);
  for (const std::string& name : trained_) {
    at::Tensor& leaf = predicted->weights.at(name);
    const at::Tensor value = leaf.detach();
    at::Tensor result = at::empty_like(value);
    predict_(name, value, delay, result);
    leaf = result.detach().set_requires_grad(true);
  }
  return predicted;
}

std::vector<c10::IValue> Stage::forward(std::int64_t id, std::vector<c10::IValue> inputs) {
  if (passes_.contains(id)) {
    throw_invalid("[stage] pass ", id, " is already in flight.");
  }
  make_leaves(inputs);
  Pass pass;
  pass.version = version_for_forward();
  pass.updates = updates_;
  pass.inputs = std::move(inputs);
  for (const std::string& name : changed_buffers_) {
    pass.buffers.emplace(name, pass.version->weights.at(name).clone());
  }
  std::vector<c10::IValue> results;
  if (options_.memory == PassMemory::kRecompute) {
    pass.random_state = default_generator().get_state();
    const at::NoGradGuard no_grad;
    // The shapes and the random draws are those of the real forward.
    results = compute(pass);
    const bool trains = !trained_.empty() || !options_.copies.empty() ||
                        std::ranges::any_of(pass.inputs, [](const c10::IValue& input) {
                          return input.isTensor() && input.toTensor().requires_grad();
                        });
    for (c10::IValue& value : results) {
      if (value.isTensor() && is_differentiable(value.toTensor())) {
        value = value.toTensor().detach().set_requires_grad(trains);
      }
    }
  } else {
    pass.outputs = compute(pass);
    results = cut_off(pass.outputs);
  }
  keep_finite(pass);
  passes_.emplace(id, std::move(pass));
  return results;
}

namespace {

// Inputs are leaves, which autograd does not let change, and may be computed from again: a graph
// that changes one gets a copy.
std::vector<c10::IValue> inputs_to_change(std::vector<c10::IValue> inputs,
                                          const std::set<std::size_t>& changed) {
  for (const std::size_t index : changed) {
    if (inputs.at(index).isTensor()) {
      inputs[index] = inputs[index].toTensor().clone();
    }
  }
  return inputs;
}

}  // namespace

// Running statistics never lose an infinity again: those of such a pass are put back.
void Stage::keep_finite(Pass& pass) const {
  const WeightMap& weights = pass.version->weights;
  const bool is_good = std::ranges::all_of(
      changed_buffers_, [&](const std::string& name) { return is_finite(weights.at(name)); });
  for (const auto& [name, before] : pass.buffers) {
    if (!is_good) {
      weights.at(name).variable_data().copy_(before);
    }
  }
  if (options_.memory == PassMemory::kStash) {
    pass.buffers.clear();
  }
}

std::vector<c10::IValue> Stage::compute(const Pass& pass) const {
  return program_.run_with(pass.version->weights, inputs_to_change(pass.inputs, changed_inputs_),
                           Mode::kTrain);
}

std::vector<c10::IValue> Stage::compute_again(const Pass& pass) const {
  const at::AutoGradMode with_gradients(true);
  at::Generator& generator = default_generator();
  const at::Tensor now = generator.get_state();
  generator.set_state(pass.random_state);
  WeightMap weights = pass.version->weights;
  for (const auto& [name, buffer] : pass.buffers) {
    weights[name] = buffer;
  }
  try {
    auto outputs =
        program_.run_with(weights, inputs_to_change(pass.inputs, changed_inputs_), Mode::kTrain);
    generator.set_state(now);
    return outputs;
  } catch (...) {
    generator.set_state(now);
    throw;
  }
}

void Stage::refuse(std::int64_t id) {
  Pass& pass = passes_.try_emplace(id).first->second;
  Pass refused;
  refused.updates = pass.version ? pass.updates : updates_;
  refused.is_refused = true;
  pass = std::move(refused);
}

std::vector<at::Tensor> Stage::backward(std::int64_t id, const std::vector<at::Tensor>& gradients,
                                        bool counts) {
  const auto found = passes_.find(id);
  if (found == passes_.end()) {
    throw_invalid("[stage] pass ", id, " is not in flight.");
  }
  Pass pass = std::move(found->second);
  passes_.erase(found);
  std::vector<at::Tensor> results;
  if (!pass.is_refused) {
    results = differentiate(pass, id, gradients);
    gather(*pass.version, counts);
  }
  const std::uint64_t delay = updates_ - pass.updates;
  const bool is_refused = pass.is_refused;
  pass = {};  // the version is free before the update
  if (!counts) {
    return results;
  }
  is_spoiled_ = is_spoiled_ || is_refused;
  last_delay_ = delay;
  longest_delay_ = std::max(longest_delay_, delay);
  ++backwards_;
  if ((id + 1 - first_) % static_cast<std::int64_t>(options_.update_frequency) == 0) {
    update();
  }
  return results;
}

// Leaves the gradients of parameters at the version's leaves, and gives those of the inputs.
std::vector<at::Tensor> Stage::differentiate(Pass& pass, std::int64_t id,
                                             const std::vector<at::Tensor>& gradients) {
  if (pass.random_state.defined()) {
    pass.outputs = compute_again(pass);
  }
  if (!gradients.empty() && gradients.size() != pass.outputs.size()) {
    throw_invalid("[stage] pass ", id, " has ", pass.outputs.size(), " outputs, got ",
                  gradients.size(), " gradients.");
  }
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> seeds;
  for (std::size_t i = 0; i < pass.outputs.size(); ++i) {
    const bool is_root = pass.outputs[i].isTensor() && pass.outputs[i].toTensor().requires_grad();
    const bool is_loss = gradients.empty() && i == 0;
    if (is_root && (is_loss || (!gradients.empty() && gradients[i].defined()))) {
      roots.push_back(pass.outputs[i].toTensor());
      seeds.push_back(is_loss ? at::ones_like(roots.back()) : gradients[i]);
    }
  }
  pass.outputs.clear();
  if (!roots.empty()) {
    torch::autograd::backward(roots, seeds);
  }
  fault_point("backward");
  std::vector<at::Tensor> results;
  for (const c10::IValue& input : pass.inputs) {
    results.push_back(input.isTensor() ? input.toTensor().grad() : at::Tensor());
  }
  return results;
}

// Gradients move from the version's leaves to the sums.
void Stage::gather(const WeightVersion& version, bool counts) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, leaf] : version.weights) {
    at::Tensor& gradient = leaf.mutable_grad();
    if (!gradient.defined()) {
      continue;
    }
    if (!counts) {
      gradient.reset();
      continue;
    }
    if (options_.compensation > 0.0 && !options_.copies.contains(name)) {
      compensate_delay(gradient, versions_.current()->weights.at(name), leaf,
                       options_.compensation);
    }
    at::Tensor& sum = gradients_[name];
    if (sum.defined()) {
      sum.add_(gradient);
    } else {
      sum = gradient;
    }
    gradient.reset();
  }
}

void Stage::flush() {
  if (backwards_ > 0) {
    update(true);
  }
}

void Stage::update(bool is_rest) {
  GradientStep step{
      .names = {}, .gradients = {}, .passes = backwards_, .delay = last_delay_, .is_rest = is_rest};
  for (const std::string& name : trained_) {
    if (auto node = gradients_.extract(name)) {
      step.names.push_back(name);
      step.gradients.insert(std::move(node));
    }
  }
  backwards_ = 0;
  ++updates_;
  note_delay();
  const bool is_good = std::ranges::all_of(
      step.gradients, [](const auto& gradient) { return is_finite(gradient.second); });
  if (std::exchange(is_spoiled_, false) || !is_good) {
    ++skipped_;
    ++skipped_in_a_row_;
    return;
  }
  skipped_in_a_row_ = 0;
  apply_(step, versions_);
  fault_point("update");
}

void Stage::note_delay() {
  const std::uint64_t delay = std::exchange(longest_delay_, 0);
  if (delay >= delays_.size()) {
    delays_.resize(delay + 1);
  }
  ++delays_[delay];
}

std::vector<c10::IValue> Stage::evaluate(std::vector<c10::IValue> inputs) const {
  const at::NoGradGuard no_grad;
  return program_.run_with(versions_.current()->weights, std::move(inputs), Mode::kEval);
}

std::map<std::string, at::Tensor> Stage::take_copy_gradients() {
  std::map<std::string, at::Tensor> taken;
  for (const std::string& name : options_.copies) {
    if (auto node = gradients_.extract(name)) {
      taken.insert(std::move(node));
    }
  }
  return taken;
}

void Stage::add_gradient(const std::string& name, const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  const auto known = versions_.current()->weights.find(name);
  if (known == versions_.current()->weights.end() || known->second.sizes() != gradient.sizes()) {
    throw_invalid("[stage] expected a gradient of a parameter that lives here, got '", name, "'.");
  }
  at::Tensor& sum = gradients_[name];
  sum = sum.defined() ? sum.add_(gradient) : gradient.clone();
}

void Stage::set_copy(const std::string& name, const at::Tensor& value) {
  if (!options_.copies.contains(name)) {
    throw_invalid("[stage] expected a parameter that lives elsewhere, got '", name, "'.");
  }
  versions_.update({name}, [&](const std::string&, const at::Tensor&, at::Tensor& result) {
    result.copy_(value);
  });
}

WeightMap Stage::snapshot() const {
  WeightMap copies;
  for (const auto& [name, tensor] : versions_.current()->weights) {
    copies.emplace(name, tensor.detach().clone());
  }
  return copies;
}

}  // namespace ravnest::engine
