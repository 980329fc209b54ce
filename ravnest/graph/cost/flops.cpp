#include "ravnest/graph/cost/flops.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ravnest/graph/cost/storage.h"
#include "ravnest/graph/words.h"

namespace ravnest::graph {

namespace {

// Operations per element of the result, or of the first argument.
struct Rate {
  std::int64_t per_element = 1;
  bool of_result = true;
};

struct RateRow {
  Rate rate;
  std::string_view operators;
};

constexpr auto kRates = std::to_array<RateRow>({
    {{0, true},
     "arange cat channel_shuffle clone col2im concat concatenate constant_pad_nd "
     "contiguous copy embedding empty empty_like eye fill flatten flip full full_like "
     "gather hstack im2col index index_put index_select lift_fresh_copy linspace new_empty "
     "new_full new_ones new_zeros ones ones_like pad pixel_shuffle pixel_unshuffle repeat "
     "repeat_interleave reshape reshape_as roll scalar_tensor scatter select_scatter "
     "slice_scatter stack sym_size tile to _to_copy tril triu type_as upsample_nearest1d "
     "upsample_nearest2d upsample_nearest3d vstack zero zeros zeros_like"},
    {{8, true}, "upsample_bilinear2d upsample_linear1d"},
    {{16, true}, "upsample_trilinear3d"},
    {{32, true}, "upsample_bicubic2d"},
    {{5, true},
     "batch_norm group_norm instance_norm layer_norm log_softmax _log_softmax "
     "native_batch_norm native_group_norm native_layer_norm rms_norm _softmax softmax"},
    {{1, false},
     "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
     "adaptive_max_pool2d adaptive_max_pool3d all amax amin any argmax argmin cumsum max "
     "mean min prod sum"},
    {{3, false},
     "huber_loss l1_loss linalg_vector_norm mse_loss norm smooth_l1_loss std var var_mean"},
    {{5, false},
     "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy_loss kl_div "
     "logsumexp"},
});

const std::unordered_map<std::string_view, Rate>& rates() {
  static const std::unordered_map<std::string_view, Rate> kTable = [] {
    std::unordered_map<std::string_view, Rate> out;
    for (const RateRow& row : kRates) {
      for_each_word(row.operators, [&](std::string_view name) { out.emplace(name, row.rate); });
    }
    return out;
  }();
  return kTable;
}

// A product of two operands: its own cost, and the same again in the backward
// for each operand that needs a gradient.
struct Product {
  std::int64_t flops = 0;
  std::optional<ValueId> left;
  std::optional<ValueId> right;
};

Product convolution(const OpView& op, bool transposed) {
  const Shape& weight = op.shape("weight");
  const Shape& positions = transposed ? op.shape("input") : op.result_shape();
  const std::int64_t kernel =
      weight.rank() == 0 ? 0 : saturating_product(std::span(weight.sizes).subspan(1));
  return {saturating_multiply(saturating_multiply(2, positions.numel), kernel),
          op.find_tensor("input"), op.find_tensor("weight")};
}

Product matrix_product(const OpView& op, std::string_view left, std::string_view right) {
  const std::int64_t inner = op.shape(left).size(-1);
  return {saturating_multiply(saturating_multiply(2, op.result_shape().numel), inner),
          op.find_tensor(left), op.find_tensor(right)};
}

struct MatrixOperands {
  std::string_view left;
  std::string_view right;
};

const std::unordered_map<std::string_view, MatrixOperands>& matrix_products() {
  static const std::unordered_map<std::string_view, MatrixOperands> kTable = {
      {"linear", {"input", "weight"}},
      {"matmul", {"self", "other"}},
      {"mm", {"self", "mat2"}},
      {"bmm", {"self", "mat2"}},
      {"mv", {"self", "vec"}},
      {"dot", {"self", "tensor"}},
      {"addmm", {"mat1", "mat2"}},
      {"addmv", {"mat", "vec"}},
      {"baddbmm", {"batch1", "batch2"}},
      {"addbmm", {"batch1", "batch2"}},
      {"bilinear", {"input1", "input2"}},
      {"inner", {"self", "other"}},
  };
  return kTable;
}

std::optional<Product> find_product(const OpView& op) {
  const std::string_view name = op.name();
  if (name.starts_with("conv_transpose")) {
    return convolution(op, true);
  }
  if (name == "convolution" || name == "_convolution") {
    return convolution(op, op.flag("transposed", false));
  }
  if (name == "conv1d" || name == "conv2d" || name == "conv3d") {
    return convolution(op, false);
  }
  if (const auto found = matrix_products().find(name); found != matrix_products().end()) {
    return matrix_product(op, found->second.left, found->second.right);
  }
  return std::nullopt;
}

// Two per product of sizes over all labels: right for two operands, an estimate
// for more. Labels under an ellipsis count through the result.
std::int64_t einsum_flops(const OpView& op) {
  const std::string_view equation = op.text("equation");
  const std::vector<ValueId> operands = op.tensors("tensors");
  std::int64_t total = saturating_multiply(2, op.result_shape().numel);
  const std::size_t arrow = std::min(equation.find("->"), equation.size());
  const std::string_view output = equation.substr(std::min(arrow + 2, equation.size()));
  std::string seen;
  std::size_t operand = 0;
  std::size_t dim = 0;
  for (const char label : equation.substr(0, arrow)) {
    if (label == ',') {
      ++operand;
      dim = 0;
    } else if (label == '.') {
      return total;
    } else if (label != ' ') {
      const bool is_new =
          seen.find(label) == std::string::npos && output.find(label) == std::string_view::npos;
      if (is_new && operand < operands.size()) {
        total = saturating_multiply(
            total, op.shape(operands[operand]).size(static_cast<std::int64_t>(dim)));
      }
      seen.push_back(label);
      ++dim;
    }
  }
  return total;
}

std::int64_t attention_flops(const OpView& op) {
  const Shape& query = op.shape("query");
  const Shape& value = op.shape("value");
  const std::int64_t rows = query.numel / std::max<std::int64_t>(query.size(-1), 1);
  const std::int64_t width = saturating_add(query.size(-1), value.size(-1));
  return saturating_multiply(saturating_multiply(saturating_multiply(2, width), rows),
                             value.size(-2));
}

// Every weight matrix meets every row of every step once.
std::int64_t recurrent_flops(const OpView& op) {
  const Shape& input = op.shape("input");
  const std::int64_t rows = input.numel / std::max<std::int64_t>(input.size(-1), 1);
  std::int64_t weights = 0;
  for (const ValueId id : op.tensors()) {
    const bool is_matrix = op.shape(id).rank() == 2 && id != op.find_tensor({"input", "hx"});
    weights = saturating_add(weights, is_matrix ? op.shape(id).numel : 0);
  }
  return saturating_multiply(saturating_multiply(2, rows), weights);
}

bool is_recurrent(std::string_view name) {
  return name == "lstm" || name == "gru" || name == "rnn_tanh" || name == "rnn_relu" ||
         name == "lstm_cell" || name == "gru_cell";
}

std::int64_t pool_flops(const OpView& op) {
  const std::int64_t window = saturating_product(op.integers("kernel_size"));
  return saturating_multiply(op.result_shape().numel, std::max<std::int64_t>(window, 0));
}

// What is neither moved nor multiplied: a few operations for every element.
std::int64_t elementwise_flops(const OpView& op) {
  if (!op.in_place() && find_aliased(op)) {
    return 0;
  }
  const auto found = rates().find(op.name());
  const Rate rate = found == rates().end() ? Rate{} : found->second;
  const std::optional<ValueId> argument = op.find_tensor({"self", "input"});
  const std::int64_t elements =
      rate.of_result || !argument ? op.result_shape().numel : op.shape(*argument).numel;
  return saturating_multiply(rate.per_element, elements);
}

}  // namespace

Flops count_flops(const OpView& op, const std::vector<bool>& needs_grad) {
  const bool passes_gradient =
      std::ranges::any_of(op.results(), [&](ValueId id) { return needs_grad[id]; });
  const auto twice = [&](std::int64_t flops) {
    return Flops{flops, passes_gradient ? saturating_multiply(2, flops) : 0};
  };
  if (!op.op().target.starts_with("aten.")) {
    return {};
  }
  if (const std::optional<Product> product = find_product(op)) {
    const std::int64_t operands = (product->left && needs_grad[*product->left] ? 1 : 0) +
                                  (product->right && needs_grad[*product->right] ? 1 : 0);
    return {product->flops, saturating_multiply(product->flops, operands)};
  }
  if (op.name() == "einsum") {
    return twice(einsum_flops(op));
  }
  if (op.name() == "scaled_dot_product_attention") {
    return twice(attention_flops(op));
  }
  if (is_recurrent(op.name())) {
    return twice(recurrent_flops(op));
  }
  const bool is_pool = op.op().find_argument("kernel_size") != nullptr &&
                       op.name().find("pool") != std::string_view::npos;
  const std::int64_t flops = is_pool ? pool_flops(op) : elementwise_flops(op);
  return {flops, passes_gradient ? flops : 0};
}

}  // namespace ravnest::graph
