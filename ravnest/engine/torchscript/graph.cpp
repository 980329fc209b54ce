#include "ravnest/engine/torchscript/graph.h"

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/compact.h"
#include "ravnest/graph/operators.h"

namespace ravnest::engine {

namespace {

const c10::OperatorHandle& find_operator_handle(const std::string& name,
                                                const std::string& overload, const Origin& origin,
                                                std::optional<c10::OperatorHandle>& found) {
  found = c10::Dispatcher::singleton().findSchema({"aten::" + name, overload});
  if (!found) {
    throw_invalid("[torchscript] ", origin.where, ": expected ATen operators, got aten::", name,
                  overload.empty() ? "" : ".", overload,
                  ", which exists in TorchScript alone. Export the model with torch.export.");
  }
  return *found;
}

std::string target_of(const std::string& name, const std::string& overload) {
  return concat("aten.", name, ".", overload.empty() ? "default" : overload);
}

// A random op moves the generator even when nobody uses its result.
bool has_effect(const c10::OperatorHandle& op) {
  return op.schema().is_mutable() || op.hasTag(at::Tag::nondeterministic_seeded);
}

std::string describe(const graph::Argument& argument) {
  if (const graph::Ref* ref = argument.find_ref()) {
    return concat("%", ref->id);
  }
  if (const auto* number = std::get_if<std::int64_t>(&argument.value)) {
    return concat(*number);
  }
  if (const auto* number = std::get_if<double>(&argument.value)) {
    return concat(std::hexfloat, *number);
  }
  const auto* flag = std::get_if<bool>(&argument.value);
  return flag != nullptr && *flag ? "true" : "false";
}

}  // namespace

ScriptGraph::ScriptGraph(ScriptWeights& weights, ScriptProbes probes)
    : weights_(weights), probes_(std::move(probes)) {
  if (probes_.has_symbol()) {
    graph_.symbols["s0"] = {.hint = probes_.hint(), .min = 1, .max = {}};
  }
}

graph::ValueId ScriptGraph::add_value(const std::string& name, graph::ValueKind kind) {
  return graph_.add_value({.name = name, .kind = kind, .type = {}, .expr = {}});
}

ScriptValue ScriptGraph::add_tensor_input(const std::string& name, ScriptProbes::Trials trials) {
  const graph::ValueId id = add_value(name, graph::ValueKind::kTensor);
  graph_.inputs.push_back(
      {.kind = graph::InputKind::kUser, .value = id, .target = "", .literal = {}});
  if (!trials.empty()) {
    graph_.values[id].type = probes_.type_of(trials);
    probes_.set(id, std::move(trials));
  }
  return {Dynamic{id}};
}

ScriptValue ScriptGraph::add_number_input(const std::string& name, graph::ValueKind kind) {
  const graph::ValueId id = add_value(name, kind);
  graph_.inputs.push_back(
      {.kind = graph::InputKind::kUser, .value = id, .target = "", .literal = {}});
  return {Dynamic{id}};
}

void ScriptGraph::add_literal(const std::string& name, graph::Argument value) {
  graph_.inputs.push_back({.kind = graph::InputKind::kLiteral,
                           .value = 0,
                           .target = name,
                           .literal = std::move(value)});
}

graph::ValueId ScriptGraph::weight_value(std::size_t index) {
  const auto [found, is_new] = weight_values_.try_emplace(index, 0);
  if (is_new) {
    const graph::Weight& weight = weights_.weight(index);
    const graph::ValueId id = add_value("", graph::ValueKind::kTensor);
    found->second = id;
    graph_.values[id].type = weight.type;
    const at::Tensor form = without_data(weights_.tensor(index));
    probes_.set(id, ScriptProbes::Trials(probes_.count(), form));
    if (weight.type.requires_grad) {
      with_gradient_.insert(id);
    }
  }
  return found->second;
}

ScriptValue ScriptGraph::tensor(const at::Tensor& tensor, const std::string& constant_name) {
  return {Dynamic{weight_value(weights_.index_of(tensor, constant_name))}};
}

ScriptValue ScriptGraph::fresh_copy(const at::Tensor& contents, const Origin& origin) {
  const ScriptValue constant{Dynamic{weight_value(weights_.index_of_copy(contents))}};
  return call("lift_fresh_copy", "", {constant}, origin).front();
}

std::vector<ScriptValue> ScriptGraph::call(const std::string& name, const std::string& overload,
                                           std::vector<ScriptValue> arguments, const Origin& origin,
                                           std::optional<std::size_t> list_length) {
  std::optional<c10::OperatorHandle> handle;
  const c10::OperatorHandle& op = find_operator_handle(name, overload, origin, handle);
  graph::Op call{.target = target_of(name, overload),
                 .arguments = {},
                 .results = {},
                 .module = origin.module,
                 .source = origin.source};
  if (!graph::find_operator(call.target)) {
    throw_invalid("[torchscript] ", origin.where, ": ", call.target,
                  " is not on the list of pure tensor operators that a Program may use.");
  }
  const auto& schema = op.schema();
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (i >= arguments.size()) {
      RAVNEST_CHECK(argument.default_value().has_value());
      arguments.push_back(known(*argument.default_value()));
    }
    call.arguments.push_back({.name = argument.name(),
                              .value = to_argument(arguments[i], *argument.real_type(), origin),
                              .positional = !argument.kwarg_only()});
  }
  const auto trials = probes_.call(op, arguments, origin.where);
  std::vector<ScriptValue> results;
  for (std::size_t i = 0; i < schema.returns().size(); ++i) {
    results.push_back(add_result(name, *schema.returns()[i].type(), origin,
                                 trials ? &(*trials)[i] : nullptr, list_length, call));
    if (find_unknown(results.back()) != nullptr) {
      return {results.back()};
    }
  }
  track_gradient(op, call);
  if (op.hasTag(at::Tag::inplace_view)) {
    numbers_.clear();
  }
  graph_.ops.push_back(std::move(call));
  has_effect_.push_back(has_effect(op));
  return results;
}

ScriptValue ScriptGraph::add_tensor_result(const std::string& name,
                                           const ScriptProbes::Trials* trials,
                                           graph::Result& result) {
  const graph::ValueId id = add_value(name, graph::ValueKind::kTensor);
  result.values.push_back(id);
  if (trials != nullptr) {
    graph_.values[id].type = probes_.type_of(*trials);
    probes_.set(id, *trials);
  }
  return {Dynamic{id}};
}

ScriptValue ScriptGraph::add_result(const std::string& name, const c10::Type& type,
                                    const Origin& origin, const ScriptProbes::Trials* trials,
                                    std::optional<std::size_t> length, graph::Op& op) {
  if (type.kind() == c10::TypeKind::TensorType) {
    op.results.push_back({.kind = graph::Result::Kind::kValue, .values = {}});
    return add_tensor_result(name, trials, op.results.back());
  }
  if (type.kind() != c10::TypeKind::ListType || !holds_tensors(type)) {
    return {Unknown{.reason = concat("the result of ", op.target, " is not a tensor"),
                    .where = origin.where}};
  }
  if (trials != nullptr) {
    length = (*trials)[0].toTensorVector().size();
    for (const c10::IValue& one : *trials) {
      if (one.toTensorVector().size() != *length) {
        return {Unknown{.reason = concat(op.target, " gives as many tensors as the batch tells"),
                        .where = origin.where}};
      }
    }
  }
  if (!length) {
    return {Unknown{.reason = concat("the number of tensors that ", op.target, " gives"),
                    .where = origin.where}};
  }
  op.results.push_back({.kind = graph::Result::Kind::kList, .values = {}});
  std::vector<ScriptValue> items;
  for (std::size_t i = 0; i < *length; ++i) {
    ScriptProbes::Trials item_trials;
    for (std::size_t trial = 0; trials != nullptr && trial < trials->size(); ++trial) {
      item_trials.emplace_back((*trials)[trial].toTensorVector()[i]);
    }
    items.push_back(
        add_tensor_result(name, trials == nullptr ? nullptr : &item_trials, op.results.back()));
  }
  return make_list(c10::TensorType::get(), std::move(items));
}

void ScriptGraph::track_gradient(const c10::OperatorHandle& op, const graph::Op& call) {
  bool needed = false;
  graph::for_each_ref(call, [&](graph::ValueId id) { needed = needed || requires_grad(id); });
  if (!needed || call.target == "aten.detach.default") {
    return;
  }
  graph::for_each_result(call, [&](graph::ValueId id) {
    const graph::TensorType& type = graph_.value(id).type;
    if (!type.is_known() || graph::is_floating(type.dtype)) {
      with_gradient_.insert(id);
    }
  });
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const auto* alias = op.schema().arguments()[i].alias_info();
    const graph::Ref* ref = call.arguments[i].value.find_ref();
    if (alias != nullptr && alias->isWrite() && ref != nullptr) {
      with_gradient_.insert(ref->id);
    }
  }
}

ScriptValue ScriptGraph::compute(const std::string& target, const std::vector<std::string>& names,
                                 const std::vector<ScriptValue>& arguments, graph::ValueKind kind,
                                 std::optional<ScriptProbes::Trials> trials, const Origin& origin) {
  graph::Op op{.target = target,
               .arguments = {},
               .results = {},
               .module = origin.module,
               .source = origin.source};
  std::string key = target;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool tensor = arguments[i].find<Dynamic>() != nullptr &&
                        kind_of(arguments[i].find<Dynamic>()->id) == graph::ValueKind::kTensor;
    const c10::Type& type = tensor ? static_cast<const c10::Type&>(*c10::TensorType::get())
                                   : static_cast<const c10::Type&>(*c10::NumberType::get());
    op.arguments.push_back(
        {.name = names[i], .value = to_argument(arguments[i], type, origin), .positional = true});
    key = concat(key, ' ', describe(op.arguments.back().value));
  }
  if (const auto found = numbers_.find(key); found != numbers_.end()) {
    return {Dynamic{found->second}};
  }
  const std::size_t dot = target.find('.');
  std::string name = target.substr(dot + 1);
  std::ranges::replace(name, '.', '_');
  const graph::ValueId id = add_value(name, kind);
  if (trials && kind == graph::ValueKind::kInt) {
    std::vector<std::int64_t> sizes;
    for (const c10::IValue& trial : *trials) {
      sizes.push_back(trial.toInt());
    }
    graph_.values[id].expr = probes_.expression(sizes).value_or(graph::Expr(0));
  }
  if (trials) {
    probes_.set(id, std::move(*trials));
  }
  op.results.push_back({.kind = graph::Result::Kind::kValue, .values = {id}});
  graph_.ops.push_back(std::move(op));
  has_effect_.push_back(false);
  numbers_[key] = id;
  return {Dynamic{id}};
}

void ScriptGraph::set_specs(std::string in_spec, std::string out_spec) {
  graph_.in_spec = std::move(in_spec);
  graph_.out_spec = std::move(out_spec);
}

graph::Graph ScriptGraph::finish() {
  std::vector<graph::Input> inputs;
  for (const auto kind :
       {graph::InputKind::kParameter, graph::InputKind::kBuffer, graph::InputKind::kConstant}) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const graph::Weight& weight = weights_.weight(i);
      const bool used = weight_values_.contains(i) || kind != graph::InputKind::kConstant;
      if (weight.kind == kind && weights_.is_first(i) && used) {
        inputs.push_back({kind, weight_value(i), weight.name, {}});
      }
    }
  }
  graph_.inputs.insert(graph_.inputs.begin(), inputs.begin(), inputs.end());
  return compact(std::move(graph_), has_effect_);
}

}  // namespace ravnest::engine
