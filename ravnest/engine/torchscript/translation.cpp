#include "ravnest/engine/torchscript/translation.h"

#include "ravnest/base/error.h"

namespace ravnest::engine {

namespace {

using torch::jit::Node;
using Values = ScriptEvaluator::Values;

bool is_true(const ScriptValue& value) {
  const auto* constant = value.find<c10::IValue>();
  return constant != nullptr && constant->isBool() && constant->toBool();
}

// Tensor.to in all its forms: only what is given changes.
TensorCall convert(const ScriptValue& self, const ScriptValue& dtype, const ScriptValue& device,
                   const ScriptValue& non_blocking, const ScriptValue& copy) {
  if (dtype.is_none() && device.is_none() && !is_true(copy)) {
    return {.name = "", .overload = "", .arguments = {self}};
  }
  const ScriptValue none = known({});
  return {.name = "to",
          .overload = "dtype_layout",
          .arguments = {self, dtype, none, device, none, non_blocking, copy}};
}

std::optional<TensorCall> translate_conversion(const std::string& name, const std::string& overload,
                                               const Values& given) {
  const ScriptValue none = known({});
  const ScriptValue no = known(false);
  if (name == "cpu") {
    return convert(given[0], none, known(c10::Device(c10::kCPU)), no, no);
  }
  if (name != "to") {
    return std::nullopt;
  }
  if (overload == "prim_Device") {
    return convert(given[0], given[2], given[1], given[3], given[4]);
  }
  if (overload == "prim_dtype") {
    return convert(given[0], given[1], none, given[2], given[3]);
  }
  if (overload == "prim_other") {
    return convert(given[0], none, none, given[1], given[2]);
  }
  return std::nullopt;
}

std::optional<TensorCall> translate_other(const std::string& name, const std::string& overload,
                                          const Values& given) {
  if (name == "split" && given[1].list() != nullptr) {
    return TensorCall{"split_with_sizes", "", given};
  }
  // Tracing records the flags of cuDNN, which are the process's own business.
  if (name == "_convolution") {
    return TensorCall{"convolution", "", Values(given.begin(), given.begin() + 9)};
  }
  if (name == "_convolution_mode" && given[3].list() != nullptr) {
    return TensorCall{concat("conv", given[3].list()->items.size(), "d"), "padding", given};
  }
  if (name == "copy_" && (overload == "int" || overload == "float")) {
    return TensorCall{"fill_", "Scalar", given};
  }
  if (name == "copy_" && given.size() > 1 && given[1].find<c10::IValue>() != nullptr) {
    return TensorCall{"fill_", "Scalar", {given[0], given[1]}};
  }
  if (name == "copy_" && overload == "Tensor") {
    return TensorCall{"copy_", "", given};
  }
  if (overload == "a" || overload == "hacked_twin") {
    return TensorCall{name, "", given};
  }
  if (overload == "Tensor_hacked_twin") {
    return TensorCall{name, "Tensor", given};
  }
  return std::nullopt;
}

}  // namespace

TensorCall translate(const ScriptEvaluator& evaluator, const Node& node, const Values& arguments) {
  const std::string overload = node.schema().overload_name();
  const std::string name = node.kind().toUnqualString();
  if (node.kind().is_prim()) {
    if (name == "data") {
      return {.name = "detach", .overload = "", .arguments = arguments};
    }
    evaluator.refuse("operators that one flat graph can describe", node.kind().toQualString());
  }
  if (auto call = translate_conversion(name, overload, arguments)) {
    return *call;
  }
  if (auto call = translate_other(name, overload, arguments)) {
    return *call;
  }
  return {.name = name, .overload = overload, .arguments = arguments};
}

void adapt_unknown_fill(const Node& node, Values& arguments) {
  if (node.kind() != c10::aten::copy_ || arguments.size() < 2) {
    return;
  }
  const auto* number = arguments[1].find<NumberTensor>();
  if (number != nullptr && find_unknown(arguments[1]) != nullptr &&
      is_fully_known(*number->number)) {
    arguments[1] = ScriptValue(*number->number);
  }
}

std::optional<std::size_t> list_length(const Node& node, const Values& arguments) {
  for (const torch::jit::Value* output : node.outputs()) {
    for (const torch::jit::Use& use : output->uses()) {
      if (use.user->kind() == c10::prim::ListUnpack) {
        return use.user->outputs().size();
      }
    }
  }
  const std::string name = node.kind().toUnqualString();
  if (name == "split" || name == "split_with_sizes" || name == "unsafe_split_with_sizes") {
    const ScriptList* sizes = arguments[1].list();
    return sizes == nullptr ? std::nullopt : std::optional(sizes->items.size());
  }
  if (name == "chunk" || name == "unsafe_chunk" || name == "tensor_split") {
    const auto count = arguments[1].find_int();
    return count && *count > 0 ? std::optional(static_cast<std::size_t>(*count)) : std::nullopt;
  }
  if (name == "meshgrid" || name == "broadcast_tensors") {
    const ScriptList* tensors = arguments[0].list();
    return tensors == nullptr ? std::nullopt : std::optional(tensors->items.size());
  }
  return std::nullopt;
}

}  // namespace ravnest::engine
