#include "ravnest/provider/values.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>

#include <memory>

#include "ravnest/base/error.h"
#include "ravnest/engine/convert.h"

namespace ravnest::provider {

transport::Tensor to_plain(const at::Tensor& given) {
  const auto kept = std::make_shared<const at::Tensor>(given.detach().cpu().contiguous());
  const auto* data = static_cast<const std::byte*>(kept->const_data_ptr());
  return {.dtype = engine::from_torch(kept->scalar_type()),
          .shape = kept->sizes().vec(),
          .bytes = Bytes(kept, {data, kept->nbytes()})};
}

at::Tensor from_plain(const transport::Tensor& tensor, c10::Device device) {
  const auto options = at::TensorOptions().dtype(engine::to_torch(tensor.dtype));
  if (tensor.bytes.empty()) {
    return at::empty(tensor.shape, options.device(device));
  }
  // Nobody else writes to what came from outside, and no graph changes an input in place.
  auto* data = const_cast<std::byte*>(tensor.bytes.data());
  return at::from_blob(data, tensor.shape, [kept = tensor.bytes](void*) {}, options).to(device);
}

namespace {

// What a value is, one letter each.
enum Letter : char {
  kTensor = 't',
  kTensorWithGradient = 'g',
  kUndefined = 'u',
  kInteger = 'i',
  kNumber = 'd',
  kFlag = 'b',
  kNone = 'n',
};

char letter_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return !tensor.defined() ? kUndefined : tensor.requires_grad() ? kTensorWithGradient : kTensor;
  }
  if (value.isInt()) {
    return kInteger;
  }
  if (value.isDouble()) {
    return kNumber;
  }
  if (value.isBool()) {
    return kFlag;
  }
  if (value.isNone()) {
    return kNone;
  }
  throw_invalid("[provider] a value of type ", value.tagKind(), " cannot be sent.");
}

at::Tensor as_tensor(const c10::IValue& value, char letter) {
  switch (letter) {
    case kInteger:
      return at::scalar_tensor(value.toInt(), at::kLong);
    case kNumber:
      return at::scalar_tensor(value.toDouble(), at::kDouble);
    case kFlag:
      return at::scalar_tensor(value.toBool(), at::kBool);
    default:
      return value.toTensor();
  }
}

c10::IValue from_letter(char letter, const transport::Tensor& tensor, c10::Device device) {
  const auto expect_scalar = [&](graph::DType dtype) {
    if (tensor.dtype != dtype || !tensor.shape.empty()) {
      throw_invalid("[provider] expected a number in a message, got a tensor.");
    }
  };
  switch (letter) {
    case kInteger:
      expect_scalar(graph::DType::kInt64);
      return from_plain(tensor, at::kCPU).item<std::int64_t>();
    case kNumber:
      expect_scalar(graph::DType::kFloat64);
      return from_plain(tensor, at::kCPU).item<double>();
    case kFlag:
      expect_scalar(graph::DType::kBool);
      return from_plain(tensor, at::kCPU).item<bool>();
    case kTensor:
      return from_plain(tensor, device);
    case kTensorWithGradient: {
      at::Tensor made = from_plain(tensor, device);
      if (!made.is_floating_point() && !made.is_complex()) {
        throw_invalid("[provider] a tensor of dtype ", graph::name_of(tensor.dtype),
                      " has no gradient.");
      }
      return made.set_requires_grad(true);
    }
    default:
      throw_invalid("[provider] unknown kind of value '", letter, "' in a message.");
  }
}

}  // namespace

void pack(const std::vector<c10::IValue>& values, transport::Message& message) {
  for (const c10::IValue& value : values) {
    const char letter = letter_of(value);
    message.metadata.push_back(letter);
    if (letter != kUndefined && letter != kNone) {
      message.tensors.push_back(to_plain(as_tensor(value, letter)));
    }
  }
}

std::vector<c10::IValue> unpack(const transport::Message& message, c10::Device device) {
  std::vector<c10::IValue> values;
  std::size_t next = 0;
  for (const char letter : message.metadata) {
    if (letter == kUndefined) {
      values.emplace_back(at::Tensor());
    } else if (letter == kNone) {
      values.emplace_back();
    } else if (next < message.tensors.size()) {
      values.push_back(from_letter(letter, message.tensors[next++], device));
    } else {
      throw_invalid("[provider] a message has fewer tensors than it says.");
    }
  }
  if (next != message.tensors.size()) {
    throw_invalid("[provider] a message has more tensors than it says.");
  }
  return values;
}

void pack_tensors(const std::vector<at::Tensor>& tensors, transport::Message& message) {
  pack({tensors.begin(), tensors.end()}, message);
}

std::vector<at::Tensor> unpack_tensors(const transport::Message& message, c10::Device device) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : unpack(message, device)) {
    if (!value.isTensor()) {
      throw_invalid("[provider] expected gradients in a message, got another value.");
    }
    tensors.push_back(value.toTensor().defined() ? value.toTensor().detach() : at::Tensor());
  }
  return tensors;
}

}  // namespace ravnest::provider
