#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "ravnest/transport/message.h"

namespace ravnest::provider {

// A tensor's values row by row, sharing its memory where it is whole and the machine's own; and
// back, sharing the bytes where the device is the CPU.
transport::Tensor to_plain(const at::Tensor& tensor);
at::Tensor from_plain(const transport::Tensor& tensor, c10::Device device);

// Puts flat values into a message: tensors as they are (sharing their bytes where they are whole
// and in main memory), numbers as tensors without dimensions. The message's metadata notes what
// each one is, which tensors want a gradient, and the order of dimensions in memory where it is not
// the usual one.
void pack(const std::vector<c10::IValue>& values, transport::Message& message);

// Takes them out again; tensors share the message's bytes where the device is the CPU. Throws
// std::invalid_argument where metadata and tensors do not go together.
std::vector<c10::IValue> unpack(const transport::Message& message, c10::Device device);

// The same for gradients, of which some may be undefined.
void pack_tensors(const std::vector<at::Tensor>& tensors, transport::Message& message);
std::vector<at::Tensor> unpack_tensors(const transport::Message& message, c10::Device device);

}  // namespace ravnest::provider
