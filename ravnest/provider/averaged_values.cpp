#include "ravnest/provider/averaged_values.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <iterator>
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

at::Tensor rows_of(const at::Tensor& tensor, const Rows& rows) {
  return tensor.dim() == 0 ? tensor : tensor.narrow(0, rows.first, rows.count);
}

}  // namespace

bool belongs_to(const std::string& key, const std::string& parameter) {
  return key.starts_with(parameter + "/") || key.ends_with("/" + parameter);
}

AveragedValues::AveragedValues(Names names, engine::Stage& stage, const RuleState& of_rule)
    : names_(std::move(names)) {
  const engine::WeightMap& weights = stage.weights().current()->weights;
  const auto weight = [&](const std::string& name) {
    const auto found = weights.find(name);
    if (found == weights.end()) {
      throw_invalid("[provider] the plan averages '", name, "', which the stage does not have.");
    }
    return found->second;
  };
  for (const Rows& rows : names_.parameters) {
    parameter_values_ += size_of(rows_of(weight(rows.name), rows));
  }
  values_ = parameter_values_;
  for (const Rows& rows : names_.parameters) {
    const at::Tensor parameter = weight(rows.name);
    for (const auto& [key, tensor] : of_rule.tensors) {
      if (belongs_to(key, rows.name) && tensor.sizes() == parameter.sizes() &&
          tensor.is_floating_point() && tensor.dim() > 0) {
        of_rule_.push_back({rows, key});
        values_ += size_of(rows_of(tensor, rows));
      }
    }
  }
  for (const std::string& name : names_.buffers) {
    const at::Tensor buffer = weight(name);
    (is_averaged(buffer) ? values_ : maxima_) += size_of(buffer);
  }
}

std::vector<at::Tensor> AveragedValues::rule_tensors(const engine::WeightMap& weights,
                                                     const UpdateRule* rule) const {
  std::vector<at::Tensor> tensors;
  if (rule == nullptr) {
    return tensors;
  }
  const RuleState state = rule->state();
  for (const auto& [rows, key] : of_rule_) {
    const auto found = state.tensors.find(key);
    const at::Tensor whole = found == state.tensors.end()
                                 ? at::zeros_like(weights.at(rows.name), at::kFloat)
                                 : found->second;
    tensors.push_back(rows_of(whole, rows));
  }
  return tensors;
}

reduce::Contribution AveragedValues::take(engine::Stage& stage, const UpdateRule* rule) const {
  const engine::WeightMap& weights = stage.weights().current()->weights;
  reduce::Contribution taken;
  taken.values.reserve(values_);
  taken.maxima.reserve(maxima_);
  for (const Rows& rows : names_.parameters) {
    append(rows_of(weights.at(rows.name), rows), taken.values);
  }
  for (const at::Tensor& tensor : rule_tensors(weights, rule)) {
    append(tensor, taken.values);
  }
  for (const std::string& name : names_.buffers) {
    const at::Tensor& buffer = weights.at(name);
    if (is_averaged(buffer)) {
      append(buffer, taken.values);
    } else {
      const at::Tensor row = buffer.to(at::kCPU, at::kLong).contiguous();
      taken.maxima.insert(taken.maxima.end(), row.const_data_ptr<std::int64_t>(),
                          row.const_data_ptr<std::int64_t>() + row.numel());
    }
  }
  return taken;
}

void AveragedValues::write(const Change& change, const reduce::Contribution& values,
                           engine::Stage& stage, const UpdateRule* rule) const {
  const at::NoGradGuard no_grad;
  std::vector<std::string> parameters;
  std::ranges::transform(names_.parameters, std::back_inserter(parameters), &Rows::name);
  std::size_t place = 0;
  auto rows = names_.parameters.begin();
  stage.weights().update(parameters,
                         [&](const std::string&, const at::Tensor& value, at::Tensor& result) {
                           const at::Tensor part = rows_of(value, *rows);
                           if (part.numel() < value.numel() && !result.is_same(value)) {
                             result.copy_(value);  // the other rows stay
                           }
                           rows_of(result, *rows++).copy_(change(part, place));
                           place += size_of(part);
                         });
  const engine::WeightMap& weights = stage.weights().current()->weights;
  std::size_t integer = 0;
  const auto set = [&](const at::Tensor& statistic) {
    statistic.copy_(part_of(values.values, place, statistic));
    place += size_of(statistic);
  };
  std::ranges::for_each(rule_tensors(weights, rule), set);
  for (const std::string& name : names_.buffers) {
    // Unseen by autograd, as when batch norm changes it: passes in flight may have saved it.
    const at::Tensor buffer = weights.at(name).variable_data();
    if (is_averaged(buffer)) {
      set(buffer);
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

std::vector<AveragedValues::Names> in_parts(const std::vector<std::string>& parameters,
                                            const std::vector<std::string>& buffers,
                                            const engine::WeightMap& weights, std::size_t parts) {
  std::size_t total = 0;
  for (const std::string& name : parameters) {
    total += size_of(weights.at(name));
  }
  std::vector<AveragedValues::Names> cut(1);
  cut[0].buffers = buffers;
  std::size_t before = 0;  // of the values, those in the parts so far
  for (const std::string& name : parameters) {
    const at::Tensor& weight = weights.at(name);
    const std::int64_t rows = weight.dim() == 0 ? 1 : weight.size(0);
    const std::size_t width = rows == 0 ? 0 : size_of(weight) / static_cast<std::size_t>(rows);
    std::int64_t first = 0;
    for (std::int64_t row = 0; row < rows; ++row, before += width) {
      const bool is_full = before * parts >= total * cut.size();
      if (cut.size() < parts && is_full) {
        if (row > first) {
          cut.back().parameters.push_back({.name = name, .first = first, .count = row - first});
        }
        cut.emplace_back();
        first = row;
      }
    }
    cut.back().parameters.push_back({.name = name, .first = first, .count = rows - first});
  }
  return cut;
}

}  // namespace ravnest::provider
