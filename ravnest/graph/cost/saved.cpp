#include "ravnest/graph/cost/saved.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ravnest/graph/cost/saved_rules.h"
#include "ravnest/graph/operators.h"
#include "ravnest/graph/words.h"

namespace ravnest::graph {

namespace {

using Rule = void (*)(SavedRule&);

const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> kTable = {
      {"linear", save_linear},
      {"matmul", save_matmul},
      {"einsum", save_einsum},
      {"conv1d", save_convolution},
      {"conv2d", save_convolution},
      {"conv3d", save_convolution},
      {"scaled_dot_product_attention", save_attention},
      {"batch_norm", save_batch_norm},
      {"instance_norm", save_instance_norm},
      {"layer_norm", save_layer_norm},
      {"group_norm", save_group_norm},
      {"rms_norm", save_rms_norm},
      {"max_pool1d", save_max_pool},
      {"max_pool2d", save_max_pool},
      {"max_pool3d", save_max_pool},
      {"max_pool2d_with_indices", save_max_pool},
      {"max_pool3d_with_indices", save_max_pool},
      {"adaptive_max_pool1d", save_max_pool},
      {"adaptive_max_pool2d", save_max_pool},
      {"adaptive_max_pool3d", save_max_pool},
      {"adaptive_avg_pool1d", save_adaptive_avg_pool},
      {"adaptive_avg_pool2d", save_adaptive_avg_pool},
      {"adaptive_avg_pool3d", save_adaptive_avg_pool},
      {"dropout", save_dropout},
      {"alpha_dropout", save_dropout},
      {"feature_dropout", save_feature_dropout},
      {"feature_alpha_dropout", save_feature_dropout},
      {"pad", save_pad},
      {"pow", save_pow},
      {"max", save_extreme},
      {"min", save_extreme},
      {"median", save_extreme},
      {"nanmedian", save_extreme},
      {"sort", save_indices},
      {"topk", save_indices},
      {"kthvalue", save_indices},
      {"mode", save_indices},
      {"cross_entropy_loss", save_cross_entropy},
      {"l1_loss", save_difference},
      {"log_sigmoid", save_log_sigmoid},
      {"lstm", save_lstm},
      {"gru", save_gru},
      {"rnn_tanh", save_rnn},
      {"rnn_relu", save_rnn},
      {"lstm_cell", save_lstm_cell},
      {"gru_cell", save_gru_cell},
  };
  return kTable;
}

// Names of what is kept: arguments, "result", "result1" or "result2"; "a<b" keeps
// a when b needs a gradient. Then the operators, "relu_" for the in-place form
// where that one keeps something else.
struct KeepsRow {
  std::string_view keeps;
  std::string_view operators;
};

constexpr auto kKeeps = std::to_array<KeepsRow>({
    {"",
     "add bernoulli cat ceil channel_shuffle clone col2im concat concatenate "
     "constant_pad_nd copy cumsum diag_embed diff expand_copy fill flip floor fmod frac "
     "hstack im2col lift_fresh_copy mean neg pixel_shuffle pixel_unshuffle remainder "
     "repeat repeat_interleave roll rot90 round rsub select_scatter sign slice_scatter "
     "stack sub subtract sum tile _to_copy trace tril triu trunc upsample_bicubic2d "
     "upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d "
     "upsample_nearest3d upsample_trilinear3d view_copy vstack zero"},
    {"self",
     "abs acos acosh _adaptive_avg_pool2d _adaptive_avg_pool3d asin asinh atan atanh "
     "avg_pool1d avg_pool2d avg_pool3d celu clamp clamp_max clamp_min cos cosh digamma elu "
     "erf erfc erfinv gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu lgamma "
     "log log10 log1p log2 logit mish nan_to_num reflection_pad1d reflection_pad2d "
     "reflection_pad3d relu6 replication_pad1d replication_pad2d replication_pad3d selu "
     "silu sin sinc sinh softplus softshrink square threshold var var_mean"},
    {"result",
     "celu_ elu_ exp exp2 expm1 leaky_relu_ log_softmax _log_softmax reciprocal relu rsqrt "
     "_safe_softmax selu_ sigmoid _softmax softmax special_expit special_softmax sqrt tan "
     "tanh"},
    {"self result",
     "amax amin cumprod linalg_norm linalg_vector_norm logcumsumexp logsumexp norm prod "
     "std std_mean"},
    {"self<other other<self", "inner kron mul multiply tensordot"},
    {"self<mat2 mat2<self", "bmm mm"},
    {"self other", "atan2 fmax fmin logaddexp logaddexp2 maximum minimum xlogy"},
    {"input1 input2", "bilinear"},
    {"self<vec vec<self", "mv"},
    {"self<vec2 vec2<self", "ger outer"},
    {"self<tensor tensor<self", "dot"},
    {"other self<other", "div divide true_divide"},
    {"mat1<mat2 mat2<mat1", "addmm"},
    {"batch1<batch2 batch2<batch1", "addbmm baddbmm"},
    {"mat<vec vec<mat", "addmv"},
    {"tensor1<tensor2 tensor2<tensor1", "addcmul"},
    {"tensor1<tensor2 tensor2", "addcdiv"},
    {"weight<end weight<self", "lerp"},
    {"input<weight weight<input",
     "conv_transpose1d conv_transpose2d conv_transpose3d _convolution convolution"},
    {"self weight", "prelu"},
    {"indices", "embedding"},
    {"index", "index_copy index_fill index_select scatter scatter_add"},
    {"indices", "index index_put _unsafe_index"},
    {"self index", "gather take_along_dim"},
    {"index source", "index_add"},
    {"mask", "masked_fill masked_scatter masked_select"},
    {"condition", "where"},
    {"self target",
     "binary_cross_entropy_with_logits huber_loss mse_loss multi_margin_loss "
     "smooth_l1_loss soft_margin_loss"},
    {"self target weight", "binary_cross_entropy nll_loss nll_loss2d nll_loss_nd"},
    {"target self<target", "kl_div"},
    {"result1", "native_dropout"},
    {"input result1 result2",
     "native_batch_norm _native_batch_norm_legit native_group_norm native_layer_norm"},
});

const std::unordered_map<std::string_view, std::string_view>& plain_rules() {
  static const std::unordered_map<std::string_view, std::string_view> kTable = [] {
    std::unordered_map<std::string_view, std::string_view> out;
    for (const KeepsRow& row : kKeeps) {
      for_each_word(row.operators, [&](std::string_view name) { out.emplace(name, row.keeps); });
    }
    return out;
  }();
  return kTable;
}

void keep_named(SavedRule& rule, std::string_view name) {
  constexpr std::string_view kResult = "result";
  if (!name.starts_with(kResult)) {
    rule.keep_argument(name);
    return;
  }
  name.remove_prefix(kResult.size());
  rule.keep(rule.op.find_result(name.empty() ? 0 : static_cast<std::size_t>(name[0] - '0')));
}

void keep_token(SavedRule& rule, std::string_view token) {
  const std::size_t condition = token.find('<');
  if (condition == std::string_view::npos) {
    keep_named(rule, token);
  } else if (rule.needs_grad(rule.op.find_tensor(token.substr(condition + 1)))) {
    keep_named(rule, token.substr(0, condition));
  }
}

void keep_everything(SavedRule& rule) {
  for (const ValueId id : rule.op.tensors()) {
    rule.keep(id);
  }
  for (const ValueId id : rule.op.results()) {
    rule.keep(id);
  }
}

// A view keeps nothing, also where it has to copy.
bool is_view(const OpView& op) {
  return find_operator(op.op().target).value_or(OperatorTraits{}).aliases;
}

const std::string_view* find_plain_rule(const OpView& op) {
  const auto& table = plain_rules();
  if (op.in_place()) {
    if (const auto found = table.find(std::string(op.name()) + '_'); found != table.end()) {
      return &found->second;
    }
  }
  const auto found = table.find(op.name());
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace

void SavedRule::keep(std::optional<ValueId> id) {
  if (id) {
    saved_.values.push_back(*id);
  }
}

void SavedRule::keep_argument(std::string_view argument) {
  if (op.in_place() && argument == "self") {
    keep_bytes(op.shape(argument).nbytes);
    return;
  }
  for (const ValueId id : op.tensors(argument)) {
    keep(id);
  }
}

void SavedRule::keep_bytes(std::int64_t nbytes) {
  // Below nothing only where an argument from outside is absurd.
  saved_.extra_bytes = saturating_add(saved_.extra_bytes, std::max<std::int64_t>(nbytes, 0));
}

void SavedRule::keep_elements(std::int64_t count, const Shape& like) {
  keep_bytes(saturating_multiply(count, static_cast<std::int64_t>(element_size(like.dtype))));
}

Saved find_saved(const OpView& op, const std::vector<bool>& needs_grad) {
  Saved saved;
  SavedRule rule(op, needs_grad, saved);
  if (!std::ranges::any_of(op.results(), [&](ValueId id) { return needs_grad[id]; })) {
    return saved;
  }
  if (const auto found = rules().find(op.name()); found != rules().end()) {
    found->second(rule);
  } else if (const std::string_view* keeps = find_plain_rule(op)) {
    for_each_word(*keeps, [&rule](std::string_view token) { keep_token(rule, token); });
  } else if (!is_view(op)) {
    keep_everything(rule);
  }
  return saved;
}

}  // namespace ravnest::graph
