#include "ravnest/engine/optim/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "ravnest/base/error.h"
#include "ravnest/engine/optim/algorithm.h"
#include "ravnest/engine/optim/compensation.h"

namespace ravnest::engine {

namespace {

using Make = std::unique_ptr<optim::Algorithm> (*)(optim::OptionReader&);

const std::vector<std::pair<std::string, Make>> kAlgorithms = {
    {"sgd", optim::make_sgd},         {"adam", optim::make_adam},
    {"adamw", optim::make_adamw},     {"nadam", optim::make_nadam},
    {"rmsprop", optim::make_rmsprop}, {"adagrad", optim::make_adagrad},
};

std::unique_ptr<optim::Algorithm> make_algorithm(const std::string& name,
                                                 const OptionMap& options) {
  const auto found = std::ranges::find(kAlgorithms, name, &std::pair<std::string, Make>::first);
  if (found == kAlgorithms.end()) {
    throw_invalid("[optim] there is no optimizer '", name, "'; there are ",
                  optim::join(Optimizer::known_names()), ".");
  }
  optim::OptionReader reader(name, options);
  auto algorithm = found->second(reader);
  reader.finish();
  return algorithm;
}

void check_like(const at::Tensor& value, const at::Tensor& other, const char* what,
                const std::string& parameter) {
  if (other.sizes() != value.sizes()) {
    throw_invalid("[optim] expected the ", what, " of '", parameter, "' with shape ", value.sizes(),
                  ", got ", other.sizes(), ".");
  }
}

void check(const std::string& parameter, const at::Tensor& value, const at::Tensor& result) {
  if (!value.is_floating_point()) {
    throw_invalid("[optim] expected '", parameter, "' to be of real numbers, got ", value.dtype(),
                  ".");
  }
  check_like(value, result, "result", parameter);
  if (result.scalar_type() != value.scalar_type() || result.device() != value.device()) {
    throw_invalid("[optim] expected the result of '", parameter, "' as ", value.dtype(), " on ",
                  value.device(), ", got ", result.dtype(), " on ", result.device(), ".");
  }
}

void check_rate(double rate) {
  if (!(rate >= 0.0) || std::isinf(rate)) {
    throw_invalid("[optim] expected a rate of 0 or more, got ", rate, ".");
  }
}

void copy_unless_same(const at::Tensor& value, const at::Tensor& result) {
  if (!result.is_same(value)) {
    result.copy_(value);
  }
}

double clipped_scale(std::span<const ParameterUpdate> updates, const StepOptions& options) {
  if (!options.max_norm) {
    return options.gradient_scale;
  }
  std::vector<at::Tensor> gradients;
  gradients.reserve(updates.size());
  for (const ParameterUpdate& update : updates) {
    gradients.push_back(update.gradient);
  }
  const double norm = gradient_norm(gradients) * std::abs(options.gradient_scale);
  return options.gradient_scale * clip_factor(norm, *options.max_norm);
}

}  // namespace

Optimizer::Optimizer(std::string_view name, const OptionMap& options)
    : name_(optim::lower_case(name)), algorithm_(make_algorithm(name_, options)) {}

Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;

std::vector<std::string> Optimizer::known_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kAlgorithms) {
    names.push_back(name);
  }
  return names;
}

void Optimizer::step(std::span<const ParameterUpdate> updates, const StepOptions& options) {
  const at::NoGradGuard no_grad;
  const double rate = algorithm_->rate() * options.rate_factor;
  check_rate(rate);
  for (const ParameterUpdate& update : updates) {
    check(update.name, update.value, update.result);
    if (update.gradient.defined()) {
      check_like(update.value, update.gradient, "gradient", update.name);
    }
  }
  const double scale = clipped_scale(updates, options);
  for (const ParameterUpdate& one : updates) {
    update(one, scale, rate);
  }
}

void Optimizer::update(const ParameterUpdate& update, double scale, double rate) {
  if (!update.gradient.defined()) {
    copy_unless_same(update.value, update.result);
    return;
  }
  const bool dense = update.gradient.layout() == at::kStrided;
  const at::Tensor gradient = dense ? update.gradient : update.gradient.to_dense();
  algorithm_->update({.value = update.value,
                      .gradient = gradient,
                      .result = update.result,
                      .scale = scale,
                      .rate = rate},
                     states_[update.name]);
}

void Optimizer::predict(const std::string& parameter, const at::Tensor& value, double delay,
                        at::Tensor& result) const {
  const at::NoGradGuard no_grad;
  check(parameter, value, result);
  if (!(delay >= 0.0)) {
    throw_invalid("[optim] expected a delay of 0 or more, got ", delay, ".");
  }
  const auto found = states_.find(parameter);
  const optim::Prediction prediction = {
      .value = value, .result = result, .distance = algorithm_->rate() * delay};
  if (found == states_.end() || !algorithm_->predict(prediction, found->second)) {
    copy_unless_same(value, result);
  }
}

double Optimizer::rate() const { return algorithm_->rate(); }

void Optimizer::set_rate(double rate) {
  check_rate(rate);
  algorithm_->rate() = rate;
}

std::optional<double> Optimizer::momentum() const {
  const double* momentum = algorithm_->momentum();
  return momentum == nullptr ? std::optional<double>() : *momentum;
}

void Optimizer::set_momentum(double momentum) {
  double* current = algorithm_->momentum();
  if (current == nullptr) {
    throw_invalid("[optim] ", name_, " has no momentum to be set; a scheduler that moves it needs ",
                  "cycle_momentum = false.");
  }
  if (!(momentum >= 0.0 && momentum < 1.0)) {
    throw_invalid("[optim] expected a momentum from 0 to below 1, got ", momentum, ".");
  }
  *current = momentum;
}

OptimizerState Optimizer::state() const {
  OptimizerState all;
  for (const auto& [parameter, state] : states_) {
    for (const auto& [name, tensor] : state.tensors) {
      all.emplace(concat(name, "/", parameter), tensor);
    }
    for (const auto& [name, number] : state.numbers) {
      all.emplace(concat(name, "/", parameter), at::scalar_tensor(number, at::kDouble));
    }
  }
  return all;
}

}  // namespace ravnest::engine
