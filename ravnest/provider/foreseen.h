#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <string>
#include <vector>

#include "ravnest/graph/slice.h"
#include "ravnest/package/package.h"
#include "ravnest/transport/options.h"

namespace ravnest::provider {

// What the plan foresees of the values that come from other nodes: the one place where they are
// held against it. Plain data.
class Foreseen {
 public:
  Foreseen() = default;  // nothing
  Foreseen(const package::NodeConfig& node, const graph::Stage& stage);

  // All throw std::invalid_argument naming the value and what was expected where kind, dtype, rank
  // or a dimension is another. Dimensions that depend on the batch are free; so is what a model
  // captured without examples does not say, and a gradient that is undefined.
  //
  // Outputs of the stage before, and inputs of the model that come from the root.
  void check_values(const std::vector<c10::IValue>& values, bool is_training) const;
  void check_inputs(const std::vector<c10::IValue>& inputs, bool is_training) const;
  // Of this stage's outputs.
  void check_gradients(const std::vector<at::Tensor>& gradients) const;
  // Of these parameters: values, or gradients.
  void check_shared(const std::vector<std::string>& names,
                    const std::vector<at::Tensor>& tensors) const;

  // How much may come, with room for batches larger than the plan's. `window` bounds nothing that
  // honest neighbours do with `passes` on their way; of `machine_bytes` half at most is held.
  struct Bounds {
    transport::Limits limits;
    std::size_t window = 0;
  };
  Bounds bounds(std::size_t passes, std::size_t machine_bytes) const;

 private:
  using Values = std::vector<graph::Value>;

  Values values_, eval_values_;  // from the stage before
  Values inputs_, eval_inputs_;  // of the model
  Values outputs_;
  std::map<std::string, graph::Value> parameters_;
  std::size_t largest_ = 0;   // bytes of a tensor that depends on the batch
  std::size_t message_ = 0;   // and of a message
  std::size_t fixed_ = 0;     // of what does not: the stage's weights, as they are averaged
  std::size_t channels_ = 1;  // that lead here
  bool is_open_ = true;       // something is not foreseen
};

}  // namespace ravnest::provider
