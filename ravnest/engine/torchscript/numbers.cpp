#include "ravnest/engine/torchscript/numbers.h"

#include <algorithm>
#include <map>

#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/nodes.h"

namespace ravnest::engine {

namespace {

using graph::ValueKind;
using torch::jit::Node;
using Values = ScriptEvaluator::Values;
using Trials = ScriptProbes::Trials;

const std::map<std::string, NumberOp>& number_ops() {
  static const std::map<std::string, NumberOp> kOps = {
      {"aten::add", {"_operator.add"}},
      {"aten::sub", {"_operator.sub"}},
      {"aten::mul", {"_operator.mul"}},
      {"aten::floordiv", {"_operator.floordiv"}},
      {"aten::remainder", {"_operator.mod"}},
      {"aten::div", {"_operator.truediv"}},
      {"aten::pow", {"_operator.pow"}},
      {"aten::neg", {"_operator.neg", 1}},
      {"aten::eq", {"_operator.eq"}},
      {"aten::ne", {"_operator.ne"}},
      {"aten::lt", {"_operator.lt"}},
      {"aten::le", {"_operator.le"}},
      {"aten::gt", {"_operator.gt"}},
      {"aten::ge", {"_operator.ge"}},
      {"prim::max", {"torch.sym_max"}},
      {"prim::min", {"torch.sym_min"}},
      {"aten::sqrt", {"torch._sym_sqrt", 1}},
      {"aten::Float", {"torch.sym_float", 1}},
      {"aten::Int", {"torch.sym_int", 1}},
      {"aten::__not__", {"torch.sym_not", 1}},
      {"aten::__and__", {"_operator.and_"}},
      {"aten::__or__", {"_operator.or_"}},
      {"aten::floor_divide", {"_operator.floordiv"}},
  };
  return kOps;
}

Trials collect(const Trials& tensors, auto&& read) {
  Trials numbers;
  for (const c10::IValue& tensor : tensors) {
    numbers.emplace_back(read(tensor.toTensor()));
  }
  return numbers;
}

ScriptValue extent(ScriptEvaluator& evaluator, const std::string& target, graph::ValueId tensor,
                   std::int64_t dim) {
  const Trials* tensors = evaluator.graph().probes().find(tensor);
  std::optional<Trials> trials;
  if (tensors != nullptr) {
    const std::int64_t rank = (*tensors)[0].toTensor().dim();
    dim = dim < 0 ? dim + rank : dim;
    if (dim < 0 || dim >= rank) {
      evaluator.refuse(concat("a dimension of a tensor that has ", rank), concat(dim));
    }
    trials = collect(*tensors, [&](const at::Tensor& t) {
      return target == "aten.sym_size.int" ? t.size(dim) : t.stride(dim);
    });
  }
  const Values arguments = {{Dynamic{tensor}}, known(dim)};
  return compute_number(evaluator, target, arguments, ValueKind::kInt, std::move(trials));
}

// x.size(), x.size(dim), x.stride(), x.stride(dim)
void extents(ScriptEvaluator& evaluator, const Node& node, const std::string& target) {
  const Values inputs = evaluator.inputs(node);
  const ScriptValue self = with_tensors(evaluator, inputs[0]);
  const auto* tensor = self.find<Dynamic>();
  if (tensor == nullptr) {
    return evaluate_operator(evaluator, node);
  }
  const Trials* trials = evaluator.graph().probes().find(tensor->id);
  if (inputs.size() == 2) {
    const auto dim = inputs[1].find_int();
    return evaluator.bind(node.output(), dim ? extent(evaluator, target, tensor->id, *dim)
                                             : evaluator.unknown_here("a size chosen by data"));
  }
  if (trials == nullptr) {
    return evaluator.bind(node.output(), target == "aten.sym_size.int"
                                             ? ScriptValue{ShapeOf{tensor->id}}
                                             : evaluator.unknown_here("the strides of a tensor"));
  }
  Values items;
  for (std::int64_t dim = 0; dim < (*trials)[0].toTensor().dim(); ++dim) {
    items.push_back(extent(evaluator, target, tensor->id, dim));
  }
  evaluator.bind(node.output(), make_list(c10::IntType::get(), std::move(items)));
}

void sizes(ScriptEvaluator& evaluator, const Node& node) {
  extents(evaluator, node, "aten.sym_size.int");
}

void strides(ScriptEvaluator& evaluator, const Node& node) {
  extents(evaluator, node, "aten.sym_stride.int");
}

void numel(ScriptEvaluator& evaluator, const Node& node) {
  const ScriptValue self = with_tensors(evaluator, evaluator.value(node.input()));
  const auto* tensor = self.find<Dynamic>();
  if (tensor == nullptr) {
    return evaluate_operator(evaluator, node);
  }
  std::optional<Trials> trials;
  if (const Trials* tensors = evaluator.graph().probes().find(tensor->id)) {
    trials = collect(*tensors, [](const at::Tensor& t) { return t.numel(); });
  }
  evaluator.bind(node.output(), compute_number(evaluator, "aten.sym_numel.default", {self},
                                               ValueKind::kInt, std::move(trials)));
}

// A Program is captured on the CPU; whoever runs it elsewhere moves it there.
void device(ScriptEvaluator& evaluator, const Node& node) {
  evaluator.bind(node.output(), known(c10::Device(c10::kCPU)));
}

void is_on_device(ScriptEvaluator& evaluator, const Node& node) {
  evaluator.bind(node.output(), known(std::string_view(node.kind().toUnqualString()) == "is_cpu"));
}

void requires_grad(ScriptEvaluator& evaluator, const Node& node) {
  const auto* tensor = evaluator.value(node.input()).find<Dynamic>();
  evaluator.bind(node.output(),
                 known(tensor != nullptr && evaluator.graph().requires_grad(tensor->id)));
}

void is_grad_enabled(ScriptEvaluator& evaluator, const Node& node) {
  evaluator.bind(node.output(), known(evaluator.no_grad_depth == 0));
}

// range(start, stop, step)[index]
void derive_index(ScriptEvaluator& evaluator, const Node& node) {
  const Values inputs = evaluator.inputs(node);
  if (std::ranges::all_of(inputs, is_fully_known) || find_unknown(inputs[1]) != nullptr) {
    return evaluate_operator(evaluator, node);
  }
  const auto step = [&](const std::string& target, const Values& arguments) {
    return compute_number(evaluator, target, arguments, ValueKind::kInt, std::nullopt);
  };
  const ScriptValue way = step("_operator.mul", {inputs[0], inputs[2]});
  evaluator.bind(node.output(), step("_operator.add", {inputs[1], way}));
}

}  // namespace

std::optional<NumberOp> find_number_op(const Node& node) {
  const auto found = number_ops().find(node.kind().toQualString());
  return found == number_ops().end() ? std::nullopt : std::optional(found->second);
}

bool is_number(const ScriptGraph& graph, const ScriptValue& value) {
  if (const auto* constant = value.find<c10::IValue>()) {
    return constant->isInt() || constant->isDouble() || constant->isBool();
  }
  const auto* dynamic = value.find<Dynamic>();
  return dynamic != nullptr && graph.kind_of(dynamic->id) != ValueKind::kTensor;
}

ScriptValue size_of(ScriptEvaluator& evaluator, graph::ValueId tensor, std::int64_t dim) {
  return extent(evaluator, "aten.sym_size.int", tensor, dim);
}

ScriptValue compute_number(ScriptEvaluator& evaluator, const std::string& target,
                           const Values& arguments, ValueKind kind, std::optional<Trials> trials) {
  if (trials && std::ranges::all_of(
                    *trials, [&](const c10::IValue& one) { return one == trials->front(); })) {
    return known(trials->front());
  }
  std::vector<std::string> names = {"a", "b"};
  if (target.starts_with("aten.")) {
    names = {"self", "dim"};
  }
  return evaluator.graph().compute(target, names, arguments, kind, std::move(trials),
                                   evaluator.origin());
}

void add_number_nodes(NodeHandlers& handlers) {
  handlers["aten::size"] = sizes;
  handlers["aten::stride"] = strides;
  handlers["aten::numel"] = numel;
  handlers["prim::device"] = device;
  for (const char* name : {"is_cpu", "is_cuda", "is_xpu", "is_xla", "is_mtia", "is_maia", "is_ipu",
                           "is_vulkan", "is_mps", "is_meta", "is_mkldnn", "is_hpu"}) {
    handlers[std::string("prim::") + name] = is_on_device;
  }
  handlers["prim::requires_grad"] = requires_grad;
  handlers["aten::is_grad_enabled"] = is_grad_enabled;
  handlers["aten::__derive_index"] = derive_index;
}

}  // namespace ravnest::engine
