#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>

#include "ravnest/base/error.h"
#include "ravnest/engine/convert.h"
#include "ravnest/engine/instruction.h"

namespace ravnest::engine {

namespace {

using c10::IValue;
using c10::TypeKind;
using graph::Argument;

c10::TypePtr strip_optional(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>()) {
    return optional->getElementType();
  }
  return type;
}

// Numbers where the schema says Tensor behave as in `tensor + 1`: they do not
// decide the result's dtype.
IValue wrapped_number(const at::Scalar& number) {
  at::Tensor tensor = at::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

template <typename T>
IValue number_as(T number, const c10::TypePtr& type) {
  switch (type->kind()) {
    case TypeKind::TensorType:
      return wrapped_number(at::Scalar(number));
    case TypeKind::FloatType:
      return static_cast<double>(number);
    case TypeKind::BoolType:
      if constexpr (std::is_same_v<T, bool>) {
        return number;
      }
      break;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      if constexpr (!std::is_same_v<T, double>) {
        return static_cast<std::int64_t>(number);
      }
      break;
    case TypeKind::NumberType:
      return IValue(at::Scalar(number));
    default:
      break;
  }
  throw_invalid("expected ", type->str(), ", got a number");
}

[[noreturn]] void mismatch(const c10::TypePtr& type, const char* got) {
  throw_invalid("expected ", type->str(), ", got ", got);
}

struct Converter {
  const c10::TypePtr& type;
  std::optional<c10::Device> device;

  IValue operator()(const graph::None&) const { return {}; }
  IValue operator()(const graph::Ref&) const { return {}; }
  IValue operator()(bool value) const { return number_as(value, type); }
  IValue operator()(std::int64_t value) const { return number_as(value, type); }
  IValue operator()(double value) const { return number_as(value, type); }
  IValue operator()(const std::complex<double>& value) const {
    return type->kind() == TypeKind::TensorType ? wrapped_number(c10::complex<double>(value))
                                                : IValue(c10::complex<double>(value));
  }
  IValue operator()(const std::string& value) const {
    if (type->kind() != TypeKind::StringType) {
      mismatch(type, "a string");
    }
    return value;
  }
  IValue operator()(graph::DType value) const {
    if (type->kind() != TypeKind::IntType && type->kind() != TypeKind::ScalarTypeType) {
      mismatch(type, "a dtype");
    }
    return to_torch(value);
  }
  IValue operator()(graph::MemoryFormat value) const {
    if (type->kind() != TypeKind::IntType && type->kind() != TypeKind::MemoryFormatType) {
      mismatch(type, "a memory format");
    }
    return to_torch(value);
  }
  IValue operator()(const graph::Device& value) const {
    if (type->kind() != TypeKind::DeviceObjType) {
      mismatch(type, "a device");
    }
    return device ? *device : to_torch(value);
  }
  IValue operator()(const graph::List&) const { return {}; }
};

IValue make_list(const c10::TypePtr& element, const std::vector<IValue>& items) {
  switch (element->kind()) {
    case TypeKind::IntType:
    case TypeKind::SymIntType: {
      c10::List<std::int64_t> list;
      list.reserve(items.size());
      for (const IValue& item : items) {
        list.push_back(item.toInt());
      }
      return list;
    }
    case TypeKind::TensorType: {
      c10::List<at::Tensor> list;
      list.reserve(items.size());
      for (const IValue& item : items) {
        list.push_back(item.toTensor());
      }
      return list;
    }
    default: {
      c10::impl::GenericList list(element);
      list.reserve(items.size());
      for (const IValue& item : items) {
        list.push_back(item);
      }
      return list;
    }
  }
}

}  // namespace

ArgumentLoader::ArgumentLoader(const Argument& argument, const c10::TypePtr& schema_type,
                               std::optional<c10::Device> device) {
  const c10::TypePtr type = strip_optional(schema_type);
  if (argument.is_none() && type == schema_type && type->kind() != TypeKind::TensorType) {
    mismatch(schema_type, "nothing");
  }
  if (const graph::Ref* ref = argument.find_ref()) {
    if (type->kind() == TypeKind::ListType) {
      mismatch(schema_type, "a single value");
    }
    source_ = Source::kSlot;
    slot_ = ref->id;
    wants_tensor_ = type->kind() == TypeKind::TensorType;
    return;
  }
  const auto list_type = type->cast<c10::ListType>();
  const graph::List* list = argument.find_list();
  if (!list_type) {
    if (list != nullptr) {
      mismatch(schema_type, "a list");
    }
    constant_ = std::visit(Converter{type, device}, argument.value);
    return;
  }
  if (argument.is_none()) {
    return;
  }
  if (list == nullptr) {
    mismatch(schema_type, "a single value");
  }
  element_type_ = list_type->getElementType();
  bool constant = true;
  for (const Argument& item : list->items) {
    items_.emplace_back(item, element_type_, device);
    constant = constant && items_.back().source_ == Source::kConstant;
  }
  source_ = Source::kList;
  if (constant) {
    Frame none;
    constant_ = load(none);
    source_ = Source::kConstant;
    items_.clear();
  }
}

c10::IValue ArgumentLoader::load(Frame& frame) const {
  switch (source_) {
    case Source::kConstant:
      return constant_;
    case Source::kSlot:
      if (wants_tensor_ && frame[slot_].isScalar()) {
        return wrapped_number(frame[slot_].toScalar());
      }
      return frame[slot_];
    case Source::kMovedSlot:
      if (wants_tensor_ && frame[slot_].isScalar()) {
        return wrapped_number(frame[slot_].toScalar());
      }
      return std::move(frame[slot_]);
    case Source::kList:
      break;
  }
  std::vector<c10::IValue> items;
  items.reserve(items_.size());
  for (const ArgumentLoader& item : items_) {
    items.push_back(item.load(frame));
  }
  return make_list(element_type_, items);
}

}  // namespace ravnest::engine
