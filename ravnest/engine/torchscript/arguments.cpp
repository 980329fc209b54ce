#include <c10/core/Layout.h>

#include "ravnest/base/error.h"
#include "ravnest/engine/convert.h"
#include "ravnest/engine/torchscript/graph.h"
#include "ravnest/engine/torchscript/types.h"

namespace ravnest::engine {

namespace {

using c10::TypeKind;

[[noreturn]] void refuse(const Origin& origin, const std::string& what) {
  throw_invalid("[torchscript] ", origin.where,
                ": expected a call that a flat graph can describe, got one that needs ", what,
                ". Pass example inputs, or export the model with torch.export.");
}

graph::ListKind list_kind(const c10::Type& element, const Origin& origin) {
  switch (element.kind()) {
    case TypeKind::TensorType:
      return graph::ListKind::kTensors;
    case TypeKind::OptionalType:
      return graph::ListKind::kOptionalTensors;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return graph::ListKind::kInts;
    case TypeKind::FloatType:
    case TypeKind::NumberType:
      return graph::ListKind::kFloats;
    case TypeKind::BoolType:
      return graph::ListKind::kBools;
    case TypeKind::StringType:
      return graph::ListKind::kStrings;
    default:
      refuse(origin, concat("a list of ", element.str()));
  }
}

// A constant as the operator's schema means it: TorchScript writes dtypes and formats as numbers.
graph::Argument constant(const c10::IValue& value, const c10::Type& type, const Origin& origin) {
  if (value.isNone()) {
    return {};
  }
  if (value.isInt()) {
    const std::int64_t number = value.toInt();
    switch (type.kind()) {
      case TypeKind::ScalarTypeType:
        return {from_torch(static_cast<c10::ScalarType>(number))};
      case TypeKind::MemoryFormatType:
        return {to_program_memory_format(static_cast<c10::MemoryFormat>(number))};
      case TypeKind::LayoutType:
        if (static_cast<c10::Layout>(number) != c10::kStrided) {
          refuse(origin, "a sparse layout");
        }
        return {};
      case TypeKind::FloatType:
        return {static_cast<double>(number)};
      default:
        return {number};
    }
  }
  if (value.isBool()) {
    return {value.toBool()};
  }
  if (value.isDouble()) {
    return {value.toDouble()};
  }
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return {std::complex<double>(number.real(), number.imag())};
  }
  if (value.isString()) {
    return {value.toStringRef()};
  }
  if (value.isDevice()) {
    return {to_program_device(value.toDevice())};
  }
  refuse(origin, concat("a constant of type ", value.tagKind()));
}

}  // namespace

graph::Argument ScriptGraph::to_list(const ScriptValue& value, const c10::Type& element,
                                     const Origin& origin) {
  graph::List made{.kind = list_kind(element, origin), .items = {}};
  const auto* tuple = value.tuple();
  const auto* list = value.list();
  if (tuple == nullptr && list == nullptr) {
    refuse(origin, "a list where there is none");
  }
  for (const ScriptValue& item : tuple != nullptr ? tuple->items : list->items) {
    made.items.push_back(to_argument(item, element, origin));
  }
  return {std::move(made)};
}

graph::Argument ScriptGraph::to_argument(const ScriptValue& value, const c10::Type& type,
                                         const Origin& origin) {
  if (const Unknown* reason = value.find<Unknown>()) {
    refuse_unknown(*reason);
  }
  if (type.kind() == TypeKind::OptionalType) {
    return value.is_none() ? graph::Argument{} : to_argument(value, *type.containedType(0), origin);
  }
  if (const auto* dynamic = value.find<Dynamic>()) {
    return {graph::Ref{dynamic->id}};
  }
  if (const auto* number = value.find<NumberTensor>()) {
    RAVNEST_CHECK(number->tensor != nullptr);
    return to_argument(*number->tensor, type, origin);
  }
  if (type.kind() == TypeKind::ListType) {
    if (const auto* default_list = value.find<c10::IValue>();
        default_list != nullptr && default_list->isList()) {
      graph::List made{.kind = list_kind(*type.containedType(0), origin), .items = {}};
      for (const c10::IValue& item : default_list->toListRef()) {
        made.items.push_back(constant(item, *type.containedType(0), origin));
      }
      return {std::move(made)};
    }
    return to_list(value, *type.containedType(0), origin);
  }
  if (const auto* fixed = value.find<c10::IValue>()) {
    return constant(*fixed, type, origin);
  }
  refuse(origin, "a container as an argument");
}

void ScriptGraph::add_output(const ScriptValue& value, const Origin& origin) {
  graph_.outputs.push_back(to_argument(value, *c10::AnyType::get(), origin));
}

}  // namespace ravnest::engine
