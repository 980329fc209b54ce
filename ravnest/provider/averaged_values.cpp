#include "ravnest/provider/averaged_values.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::provider {

namespace {

std::size_t size_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * (tensor.is_complex() ? 2 : 1);
}

// As float32, complex numbers as two.
at::Tensor plain(const at::Tensor& tensor) {
  const at::Tensor real = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
  return real.to(at::kCPU, at::kFloat).contiguous();
}

void append(const at::Tensor& tensor, std::vector<float>& row) {
  const at::Tensor part = plain(tensor.detach());
  row.insert(row.end(), part.const_data_ptr<float>(), part.const_data_ptr<float>() + part.numel());
}

bool is_averaged(const at::Tensor& tensor) {
  return tensor.is_floating_point() || tensor.is_complex();
}

// A part of a row as a tensor like this one; shares the row.
at::Tensor part_of(const std::vector<float>& row, std::size_t place, const at::Tensor& like) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  if (like.is_complex()) {
    sizes.push_back(2);
  }
  const at::Tensor part = at::from_blob(const_cast<float*>(row.data() + place), sizes, at::kFloat);
  return like.is_complex() ? at::view_as_complex(part) : part;
}

bool belongs_to(const std::string& key, const std::string& parameter) {
  return key.starts_with(parameter + "/") || key.ends_with("/" + parameter);
}

// Means of squares stay what they are, though a codec may have rounded them below zero: those of
// batch norm, Adam and its kin, RMSprop and Adagrad.
bool is_of_squares(const std::string& name) {
  const auto holds = [&](const char* word) { return name.find(word) != std::string::npos; };
  return holds("running_var") || holds("exp_avg_sq") || holds("square_avg") || holds("sum");
}

}  // namespace

AveragedValues::AveragedValues(Names names, engine::Stage& stage, const UpdateRule* rule)
    : names_(std::move(names)) {
  const engine::WeightMap& weights = stage.weights().current()->weights;
  for (const auto* list : {&names_.parameters, &names_.buffers}) {
    for (const std::string& name : *list) {
      const auto found = weights.find(name);
      if (found == weights.end()) {
        throw_invalid("[provider] the plan averages '", name, "', which the stage does not have.");
      }
      (is_averaged(found->second) ? values_ : maxima_) += size_of(found->second);
    }
  }
  for (const Named& of_rule : rule_tensors(weights, rule)) {
    rule_values_ += size_of(of_rule.tensor);
  }
  values_ += rule_values_;
  for (const std::string& name : names_.parameters) {
    parameter_values_ += size_of(weights.at(name));
  }
}

std::vector<AveragedValues::Named> AveragedValues::rule_tensors(const engine::WeightMap& weights,
                                                                const UpdateRule* rule) const {
  std::vector<Named> tensors;
  if (rule == nullptr) {
    return tensors;
  }
  const RuleState state = rule->state();
  for (const std::string& parameter : names_.parameters) {
    for (const auto& [key, tensor] : state.tensors) {
      if (belongs_to(key, parameter) && tensor.sizes() == weights.at(parameter).sizes() &&
          tensor.is_floating_point() && tensor.dim() > 0) {
        tensors.push_back({.name = key, .tensor = tensor});
      }
    }
  }
  return tensors;
}

reduce::Contribution AveragedValues::take(engine::Stage& stage, const UpdateRule* rule) const {
  const engine::WeightMap& weights = stage.weights().current()->weights;
  reduce::Contribution taken;
  taken.values.reserve(values_);
  taken.maxima.reserve(maxima_);
  const auto add = [&](const at::Tensor& tensor) {
    if (is_averaged(tensor)) {
      append(tensor, taken.values);
    } else {
      const at::Tensor row = tensor.to(at::kCPU, at::kLong).contiguous();
      taken.maxima.insert(taken.maxima.end(), row.const_data_ptr<std::int64_t>(),
                          row.const_data_ptr<std::int64_t>() + row.numel());
    }
  };
  for (const std::string& name : names_.parameters) {
    add(weights.at(name));
  }
  for (const Named& of_rule : rule_tensors(weights, rule)) {
    add(of_rule.tensor);
  }
  for (const std::string& name : names_.buffers) {
    add(weights.at(name));
  }
  return taken;
}

std::vector<float> AveragedValues::initial(const engine::WeightMap& weights) const {
  std::vector<float> row;
  const auto add = [&](const std::string& name) {
    if (is_averaged(weights.at(name))) {
      append(weights.at(name), row);
    }
  };
  std::ranges::for_each(names_.parameters, add);
  row.resize(row.size() + rule_values_, 0.0F);
  std::ranges::for_each(names_.buffers, add);
  return row;
}

void AveragedValues::write(const Change& change, const reduce::Contribution& values,
                           engine::Stage& stage, const UpdateRule* rule) const {
  const at::NoGradGuard no_grad;
  std::size_t place = 0;
  stage.weights().update(names_.parameters,
                         [&](const std::string&, const at::Tensor& value, at::Tensor& result) {
                           result.copy_(change(value, place));
                           place += size_of(value);
                         });
  const engine::WeightMap& weights = stage.weights().current()->weights;
  const auto set = [&](const Named& named) {
    const at::Tensor mean = part_of(values.values, place, named.tensor);
    named.tensor.copy_(is_of_squares(named.name) ? mean.clamp_min(0.0) : mean);
    place += size_of(named.tensor);
  };
  std::ranges::for_each(rule_tensors(weights, rule), set);
  std::size_t integer = 0;
  for (const std::string& name : names_.buffers) {
    // Unseen by autograd, as when batch norm changes it: passes in flight may have saved it.
    const at::Tensor buffer = weights.at(name).variable_data();
    if (is_averaged(buffer)) {
      set({.name = name, .tensor = buffer});
    } else {
      auto* data = const_cast<std::int64_t*>(values.maxima.data() + integer);
      const at::Tensor largest = at::from_blob(data, buffer.sizes(), at::kLong);
      buffer.copy_(at::maximum(buffer.to(at::kCPU, at::kLong), largest));
      integer += size_of(buffer);
    }
  }
}

void AveragedValues::set(const reduce::Contribution& values, engine::Stage& stage,
                         const UpdateRule* rule) const {
  write([&](const at::Tensor& value,
            std::size_t place) { return part_of(values.values, place, value); },
        values, stage, rule);
}

void AveragedValues::move(const reduce::Contribution& before, const reduce::Contribution& after,
                          engine::Stage& stage, const UpdateRule* rule) const {
  write(
      [&](const at::Tensor& value, std::size_t place) {
        const at::Tensor way =
            part_of(after.values, place, value) - part_of(before.values, place, value);
        return value + way.to(value.options());
      },
      after, stage, rule);
}

std::vector<AveragedValues::Names> in_parts(const AveragedValues::Names& names,
                                            const engine::WeightMap& weights, std::size_t parts) {
  std::size_t total = 0;
  for (const std::string& name : names.parameters) {
    total += size_of(weights.at(name));
  }
  const std::size_t count =
      std::clamp<std::size_t>(parts, 1, std::max<std::size_t>(1, names.parameters.size()));
  std::vector<AveragedValues::Names> cut(1);
  cut[0].buffers = names.buffers;
  std::size_t before = 0;
  for (const std::string& name : names.parameters) {
    if (cut.size() < count && !cut.back().parameters.empty() &&
        before * count >= total * cut.size()) {
      cut.emplace_back();
    }
    cut.back().parameters.push_back(name);
    before += size_of(weights.at(name));
  }
  return cut;
}

}  // namespace ravnest::provider
