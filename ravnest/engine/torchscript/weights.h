#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ravnest/graph/program.h"

namespace torch::jit {
struct Module;
}

namespace ravnest::engine {

// The weights of a TorchScript module in the order of its state dict, and behind them the tensors
// that its code holds. A tensor with several names is one weight to the graph: the first.
// Bytes are shared with the module, not copied, where they are on the CPU.
class ScriptWeights {
 public:
  ScriptWeights(const torch::jit::Module& module, const std::set<std::string>& transient_buffers);

  // The index of this very tensor; one that no module owns becomes a constant of that name.
  std::size_t index_of(const at::Tensor& tensor, const std::string& constant_name);
  // The index of a constant with these contents.
  std::size_t index_of_copy(const at::Tensor& tensor);

  const graph::Weight& weight(std::size_t index) const { return weights_[index]; }
  const at::Tensor& tensor(std::size_t index) const { return tensors_[index]; }
  // Whether it is the first of the weights tied to it.
  bool is_first(std::size_t index) const { return first_[index] == index; }
  std::size_t size() const { return weights_.size(); }
  const std::vector<graph::Weight>& all() const { return weights_; }

 private:
  // Two tensors are one when all of this is equal.
  using Identity = std::tuple<const void*, std::int64_t, std::vector<std::int64_t>,
                              std::vector<std::int64_t>, c10::ScalarType>;

  static Identity identity_of(const at::Tensor& tensor);
  void collect(const torch::jit::Module& module, const std::string& prefix,
               const std::set<std::string>& transient_buffers);
  std::size_t add(const std::string& name, graph::InputKind kind, const at::Tensor& tensor);
  std::string unused_name(const std::string& wanted) const;

  std::vector<graph::Weight> weights_;
  std::vector<at::Tensor> tensors_;
  std::vector<std::size_t> first_;
  std::map<Identity, std::size_t> by_identity_;
  std::map<const void*, std::string> storage_keys_;
  std::vector<std::size_t> copies_;
};

}  // namespace ravnest::engine
