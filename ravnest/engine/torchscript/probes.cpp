#include "ravnest/engine/torchscript/probes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/types.h"
#include "ravnest/engine/torchscript/zero_run.h"

namespace ravnest::engine {

namespace {

using Stack = std::vector<c10::IValue>;

std::optional<c10::IValue> trial_of(const ScriptProbes& probes, const ScriptValue& value,
                                    std::size_t trial);

std::optional<Stack> trials_of(const ScriptProbes& probes, const std::vector<ScriptValue>& values,
                               std::size_t trial) {
  Stack stack;
  for (const ScriptValue& value : values) {
    auto one = trial_of(probes, value, trial);
    if (!one) {
      return std::nullopt;
    }
    stack.push_back(std::move(*one));
  }
  return stack;
}

std::optional<c10::IValue> trial_of_list(const ScriptProbes& probes, const ScriptList& list,
                                         std::size_t trial) {
  auto items = trials_of(probes, list.items, trial);
  if (!items) {
    return std::nullopt;
  }
  c10::impl::GenericList made(list.element_type);
  for (c10::IValue& item : *items) {
    made.push_back(std::move(item));
  }
  return c10::IValue(made);
}

std::optional<c10::IValue> trial_of_tuple(const ScriptProbes& probes, const ScriptTuple& tuple,
                                          std::size_t trial) {
  auto items = trials_of(probes, tuple.items, trial);
  return items ? std::optional<c10::IValue>(c10::ivalue::Tuple::create(std::move(*items)))
               : std::nullopt;
}

std::optional<c10::IValue> trial_of_dict(const ScriptProbes& probes, const ScriptDict& dict,
                                         std::size_t trial) {
  c10::impl::GenericDict made(dict.key_type, dict.value_type);
  for (const auto& [key, item] : dict.items) {
    auto one = trial_of(probes, item, trial);
    if (!one) {
      return std::nullopt;
    }
    made.insert(key, std::move(*one));
  }
  return c10::IValue(made);
}

// What an operator makes must be without data too, wherever the model wants it.
void keep_without_data(const c10::FunctionSchema& schema, Stack& stack) {
  const bool makes_from_nothing = std::ranges::none_of(
      stack, [](const c10::IValue& value) { return value.isTensor() || value.isTensorList(); });
  for (std::size_t i = 0; i < stack.size(); ++i) {
    const bool unspecified = stack[i].isNone() && schema.arguments()[i].name() == "device";
    if (stack[i].isDevice() || (unspecified && makes_from_nothing)) {
      stack[i] = c10::Device(c10::kMeta);
    }
  }
}

std::optional<c10::IValue> trial_of(const ScriptProbes& probes, const ScriptValue& value,
                                    std::size_t trial) {
  if (const auto* constant = value.find<c10::IValue>()) {
    return *constant;
  }
  if (const auto* dynamic = value.find<Dynamic>()) {
    const auto* trials = probes.find(dynamic->id);
    return trials == nullptr ? std::nullopt : std::optional((*trials)[trial]);
  }
  if (const ScriptList* list = value.list()) {
    return trial_of_list(probes, *list, trial);
  }
  if (const ScriptTuple* tuple = value.tuple()) {
    return trial_of_tuple(probes, *tuple, trial);
  }
  if (const ScriptDict* dict = value.dict()) {
    return trial_of_dict(probes, *dict, trial);
  }
  return std::nullopt;
}

}  // namespace

ScriptProbes::ScriptProbes(std::vector<std::int64_t> batches, std::int64_t hint)
    : batches_(std::move(batches)), hint_(hint) {}

const ScriptProbes::Trials* ScriptProbes::find(graph::ValueId id) const {
  const auto found = trials_.find(id);
  return found == trials_.end() ? nullptr : &found->second;
}

std::optional<ScriptProbes::Trials> ScriptProbes::of(const ScriptValue& value) const {
  Trials trials;
  for (std::size_t i = 0; i < count(); ++i) {
    auto one = trial_of(*this, value, i);
    if (!one) {
      return std::nullopt;
    }
    trials.push_back(std::move(*one));
  }
  return trials;
}

std::optional<std::vector<Stack>> ScriptProbes::stacks_of(
    const std::vector<ScriptValue>& arguments) const {
  std::vector<Stack> stacks;
  for (std::size_t i = 0; i < count(); ++i) {
    auto stack = trials_of(*this, arguments, i);
    if (!stack) {
      return std::nullopt;
    }
    stacks.push_back(std::move(*stack));
  }
  return stacks;
}

std::optional<std::vector<ScriptProbes::Trials>> ScriptProbes::call(
    const c10::OperatorHandle& op, const std::vector<ScriptValue>& arguments,
    const std::string& where) {
  auto stacks = stacks_of(arguments);
  if (!stacks) {
    return std::nullopt;
  }
  std::vector<Trials> results(op.schema().returns().size());
  for (std::size_t trial = 0; trial < stacks->size(); ++trial) {
    Stack& stack = (*stacks)[trial];
    keep_without_data(op.schema(), stack);
    if (!call_once(op, stack, trial, where)) {
      notes_.push_back(concat(op.schema().name(), " at ", where));
      return std::nullopt;
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i].push_back(std::move(stack[i]));
    }
  }
  return results;
}

bool ScriptProbes::call_once(const c10::OperatorHandle& op, Stack& stack, std::size_t trial,
                             const std::string& where) {
  const at::NoGradGuard no_grad;
  const Stack arguments = stack;
  std::string refusal;
  bool missing = false;
  try {
    op.callBoxed(stack);
    return true;
  } catch (const c10::NotImplementedError&) {
    missing = true;
  } catch (const std::exception& error) {
    refusal = brief_error(error);
  }
  const ZeroRun run = run_on_zeros(op, arguments);
  if (run.results) {
    stack = *run.results;
    return true;
  }
  if (trial == 0 && (missing || run.depends_on_values)) {
    return false;
  }
  throw_invalid("[torchscript] ", where, ": expected inputs that the model takes, got an error of ",
                op.schema().name(),
                has_symbol() ? concat(" with a batch of ", batches_[trial]) : "", ": ",
                run.refusal.empty() ? refusal : run.refusal);
}

std::optional<graph::Expr> ScriptProbes::expression(const std::vector<std::int64_t>& sizes) const {
  using graph::Expr;
  if (std::ranges::all_of(sizes, [&](std::int64_t size) { return size == sizes[0]; })) {
    return Expr(sizes[0]);
  }
  const Expr symbol = Expr::symbol("s0");
  const auto fits = [&](auto&& function) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (function(batches_[i]) != sizes[i]) {
        return false;
      }
    }
    return true;
  };
  const auto times = [](std::int64_t factor, std::vector<Expr> rest) {
    if (factor != 1) {
      rest.insert(rest.begin(), Expr(factor));
    }
    return rest.size() == 1 ? rest[0] : Expr::call("Mul", std::move(rest));
  };
  const std::int64_t slope = (sizes[1] - sizes[0]) / (batches_[1] - batches_[0]);
  const std::int64_t offset = sizes[0] - slope * batches_[0];
  if (fits([&](std::int64_t batch) { return slope * batch + offset; })) {
    const Expr product = times(slope, {symbol});
    return offset == 0 ? product : Expr::call("Add", {product, Expr(offset)});
  }
  const std::int64_t factor = sizes[0] / (batches_[0] * batches_[0]);
  if (fits([&](std::int64_t batch) { return factor * batch * batch; })) {
    return times(factor, {symbol, symbol});
  }
  return std::nullopt;
}

graph::TensorType ScriptProbes::type_of(const Trials& tensors) const {
  graph::TensorType type = to_program_type(tensors[0].toTensor());
  std::vector<std::int64_t> values(tensors.size());
  bool told = true;
  const auto express = [&](auto&& read) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor& tensor = tensors[i].toTensor();
      told = told && static_cast<std::size_t>(tensor.dim()) == type.sizes.size();
      values[i] = told ? read(tensor) : 0;
    }
    const auto found = told ? expression(values) : std::nullopt;
    told = told && found.has_value();
    return found.value_or(graph::Expr(0));
  };
  for (std::size_t dim = 0; dim < type.sizes.size(); ++dim) {
    const auto index = static_cast<std::int64_t>(dim);
    type.sizes[dim] = express([index](const at::Tensor& t) { return t.size(index); });
    type.strides[dim] = express([index](const at::Tensor& t) { return t.stride(index); });
  }
  type.storage_offset = express([](const at::Tensor& t) { return t.storage_offset(); });
  return told ? type : graph::TensorType{};
}

at::Tensor without_data(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(c10::kMeta).requires_grad(false));
}

at::Tensor without_data(const at::Tensor& tensor, std::int64_t first_size) {
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes[0] = first_size;
  return at::empty(sizes, tensor.options()
                              .device(c10::kMeta)
                              .requires_grad(false)
                              .memory_format(tensor.suggest_memory_format()));
}

}  // namespace ravnest::engine
