#include "ravnest/provider/values.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <memory>
#include <numeric>

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
  const auto is_flag = [](std::byte byte) { return byte <= std::byte{1}; };
  if (tensor.dtype == graph::DType::kBool && !std::ranges::all_of(tensor.bytes.view(), is_flag)) {
    throw_invalid("[provider] expected flags of 0 and 1 in a message, got others.");
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

// After a tensor's letter: its dimensions as they lie in memory, 'A' being the first.
constexpr char kFirstDimension = 'A';
static_assert(transport::kMaxRank <= 26);

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

// The dimensions from the widest stride to the narrowest.
std::vector<std::int64_t> memory_order(const at::Tensor& tensor) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.dim()));
  std::iota(order.begin(), order.end(), 0);
  if (!tensor.is_contiguous()) {
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](std::int64_t d) { return tensor.stride(d); });
  }
  return order;
}

// Puts a tensor into a message in the order it has in memory, and notes that where it is not that
// of its dimensions: a model's next view may rest on it.
void pack_tensor(const at::Tensor& tensor, transport::Message& message) {
  const std::vector<std::int64_t> order = memory_order(tensor);
  if (std::ranges::is_sorted(order)) {
    message.tensors.push_back(to_plain(tensor));
    return;
  }
  for (const std::int64_t dimension : order) {
    message.metadata.push_back(static_cast<char>(kFirstDimension + dimension));
  }
  message.tensors.push_back(to_plain(tensor.permute(order)));
}

// Undoes what pack_tensor noted.
at::Tensor in_order(const at::Tensor& tensor, std::string_view noted) {
  if (noted.empty()) {
    return tensor;
  }
  std::vector<std::int64_t> back(static_cast<std::size_t>(tensor.dim()), -1);
  for (std::size_t i = 0; i < noted.size(); ++i) {
    const auto dimension = static_cast<std::size_t>(noted[i] - kFirstDimension);
    if (noted.size() != back.size() || dimension >= back.size() || back[dimension] != -1) {
      throw_invalid("[provider] a message gives a tensor of ", back.size(),
                    " dimensions in an order that is none.");
    }
    back[dimension] = static_cast<std::int64_t>(i);
  }
  return tensor.permute(back);
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

c10::IValue from_letter(char letter, std::string_view order, const transport::Tensor& tensor,
                        c10::Device device) {
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
      return in_order(from_plain(tensor, device), order);
    case kTensorWithGradient: {
      at::Tensor made = in_order(from_plain(tensor, device), order);
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
      pack_tensor(as_tensor(value, letter), message);
    }
  }
}

std::vector<c10::IValue> unpack(const transport::Message& message, c10::Device device) {
  std::vector<c10::IValue> values;
  std::size_t next = 0;
  std::string_view rest = message.metadata;
  while (!rest.empty()) {
    const char letter = rest.front();
    rest.remove_prefix(1);
    const auto is_dimension = [](char c) { return c >= kFirstDimension && c <= 'Z'; };
    const auto end = std::ranges::find_if_not(rest, is_dimension) - rest.begin();
    const std::string_view order = rest.substr(0, static_cast<std::size_t>(end));
    rest.remove_prefix(order.size());
    if (letter == kUndefined) {
      values.emplace_back(at::Tensor());
    } else if (letter == kNone) {
      values.emplace_back();
    } else if (next < message.tensors.size()) {
      values.push_back(from_letter(letter, order, message.tensors[next++], device));
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
