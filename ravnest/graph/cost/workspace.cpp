#include "ravnest/graph/cost/workspace.h"

#include <algorithm>
#include <string_view>

#include "ravnest/graph/cost/recurrent.h"

namespace ravnest::graph {

namespace {

bool is_pointwise(const Shape& weight) {
  return weight.rank() < 3 ||
         std::ranges::all_of(
             std::span(weight.sizes).subspan(2), [](std::int64_t extent) { return extent == 1; });
}

// oneDNN reorders the input and, whichever is larger, the result or the weight.
std::int64_t convolution(const OpView& op) {
  const Shape& weight = op.shape("weight");
  if (is_pointwise(weight)) {
    return 0;
  }
  return saturating_add(op.shape("input").nbytes,
                        std::max(op.result_shape().nbytes, weight.nbytes));
}

// Fused, the backward keeps a copy of the gradient; written out, the gradient of
// the scores is there before those of query and key.
std::int64_t attention(const OpView& op) {
  if (op.number("dropout_p", 0.0) == 0.0) {
    return op.result_shape().nbytes;
  }
  const Shape& query = op.shape("query");
  const Shape& key = op.shape("key");
  const std::int64_t width = std::max<std::int64_t>(query.size(-1), 1);
  const std::int64_t scores = saturating_multiply(query.nbytes / width, key.size(-2));
  return std::max<std::int64_t>(scores - saturating_add(query.nbytes, key.nbytes), 0);
}

std::int64_t lstm(const OpView& op) {
  const Recurrent layer = read_recurrent(op);
  const std::int64_t later = saturating_multiply(layer.hidden, layer.directions);
  return lstm_workspace_bytes(layer, std::max(layer.input, later)) / 3;
}

}  // namespace

std::int64_t workspace_bytes(const OpView& op) {
  const std::string_view name = op.name();
  if (name.starts_with("conv") || name == "_convolution") {
    return convolution(op);
  }
  if (name == "scaled_dot_product_attention") {
    return attention(op);
  }
  if (name == "lstm") {
    return lstm(op);
  }
  if (name == "gru") {
    return saturating_multiply(3, op.result_shape().nbytes);
  }
  if (name == "batch_norm") {
    return op.shape("input").nbytes;
  }
  return name == "cross_entropy_loss" ? op.shape("self").nbytes : 0;
}

}  // namespace ravnest::graph
