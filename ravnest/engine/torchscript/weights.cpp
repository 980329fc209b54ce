#include "ravnest/engine/torchscript/weights.h"

#include <ATen/ops/equal.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/types.h"

namespace ravnest::engine {

namespace {

// Modules nest as deep as people write them; more is a cycle.
constexpr std::size_t kDeepestPath = 4096;

Bytes storage_of(const at::Tensor& tensor) {
  auto owner = std::make_shared<const at::Tensor>(tensor);
  const auto* data = static_cast<const std::byte*>(tensor.storage().data());
  return {owner, {data, tensor.storage().nbytes()}};
}

at::Tensor plain_tensor(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != c10::kStrided || tensor.is_quantized() ||
      tensor.is_meta()) {
    throw_invalid("[torchscript] expected plain dense weights, got '", name,
                  "', which is sparse, quantized or without data.");
  }
  const at::Tensor detached = tensor.detach();
  return detached.is_cpu() ? detached : detached.cpu();
}

}  // namespace

ScriptWeights::ScriptWeights(const torch::jit::Module& module,
                             const std::set<std::string>& transient_buffers) {
  collect(module, "", transient_buffers);
}

ScriptWeights::Identity ScriptWeights::identity_of(const at::Tensor& tensor) {
  return {tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset(), tensor.sizes().vec(),
          tensor.strides().vec(), tensor.scalar_type()};
}

void ScriptWeights::collect(const torch::jit::Module& module, const std::string& prefix,
                            const std::set<std::string>& transient_buffers) {
  if (prefix.size() > kDeepestPath) {
    throw_invalid("[torchscript] expected modules in a tree, got one that holds itself at '",
                  prefix.substr(0, 80), "'.");
  }
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    add(prefix + parameter.name, graph::InputKind::kParameter, parameter.value);
  }
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
    const std::size_t index = add(prefix + buffer.name, graph::InputKind::kBuffer, buffer.value);
    weights_[index].persistent = !transient_buffers.contains(prefix + buffer.name);
  }
  for (const auto& child : module.named_children()) {
    collect(child.value, prefix + child.name + ".", transient_buffers);
  }
}

std::size_t ScriptWeights::add(const std::string& name, graph::InputKind kind,
                               const at::Tensor& tensor) {
  const at::Tensor plain = plain_tensor(name, tensor);
  const void* storage = plain.storage().unsafeGetStorageImpl();
  const auto [key, is_new] = storage_keys_.try_emplace(storage, name);
  graph::Weight weight{.name = name,
                       .kind = kind,
                       .persistent = true,
                       .type = to_program_type(plain),
                       .storage_key = key->second,
                       .storage = storage_of(plain)};
  weight.type.requires_grad = kind == graph::InputKind::kParameter && tensor.requires_grad();
  const std::size_t index = weights_.size();
  first_.push_back(by_identity_.try_emplace(identity_of(tensor), index).first->second);
  if (first_.back() != index) {
    weight.storage_key = weights_[first_.back()].storage_key;
    weight.storage = weights_[first_.back()].storage;
  }
  weights_.push_back(std::move(weight));
  // Kept as it is, because its identity is the address of its storage.
  tensors_.push_back(tensor);
  return index;
}

std::string ScriptWeights::unused_name(const std::string& wanted) const {
  const auto taken = [this](const std::string& name) {
    return std::ranges::find(weights_, name, &graph::Weight::name) != weights_.end();
  };
  std::string name = wanted;
  for (int i = 1; taken(name); ++i) {
    name = concat(wanted, "_", i);
  }
  return name;
}

std::size_t ScriptWeights::index_of(const at::Tensor& tensor, const std::string& constant_name) {
  plain_tensor(constant_name, tensor);
  const auto found = by_identity_.find(identity_of(tensor));
  if (found != by_identity_.end()) {
    return found->second;
  }
  return add(unused_name(constant_name), graph::InputKind::kConstant, tensor);
}

std::size_t ScriptWeights::index_of_copy(const at::Tensor& tensor) {
  for (const std::size_t index : copies_) {
    const at::Tensor& other = tensors_[index];
    if (other.scalar_type() == tensor.scalar_type() && other.sizes() == tensor.sizes() &&
        at::equal(other, tensor)) {
      return index;
    }
  }
  const std::string name = unused_name(concat("lifted_tensor_", copies_.size()));
  copies_.push_back(add(name, graph::InputKind::kConstant, tensor));
  return copies_.back();
}

}  // namespace ravnest::engine
