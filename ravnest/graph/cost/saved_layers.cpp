#include <algorithm>

#include "ravnest/graph/cost/saved_rules.h"

// What autograd keeps of norms, pools, dropout and losses.

namespace ravnest::graph {

namespace {

constexpr std::int64_t kIndexBytes = 8;

std::int64_t rows_of(const Shape& input, std::span<const std::int64_t> normalized) {
  return input.numel / std::max<std::int64_t>(saturating_product(normalized), 1);
}

// The kernel works on contiguous memory; autograd keeps what the kernel read.
void keep_contiguous(SavedRule& rule, std::string_view argument) {
  const Shape& shape = rule.op.shape(argument);
  if (shape.is_contiguous()) {
    rule.keep_argument(argument);
  } else {
    rule.keep_bytes(shape.nbytes);
  }
}

}  // namespace

void save_batch_norm(SavedRule& rule) {
  rule.keep_argument("input");
  if (rule.op.flag("training", true)) {
    const Shape& input = rule.op.shape("input");
    rule.keep_elements(saturating_multiply(2, input.size(1)), input);
  }
}

void save_instance_norm(SavedRule& rule) {
  keep_contiguous(rule, "input");
  const Shape& input = rule.op.shape("input");
  const std::int64_t channels = saturating_multiply(input.size(0), input.size(1));
  const std::int64_t statistics = rule.op.find_tensor("weight") ? 3 : 2;
  rule.keep_elements(saturating_multiply(channels, statistics), input);
}

void save_layer_norm(SavedRule& rule) {
  rule.keep_argument("input");
  const Shape& input = rule.op.shape("input");
  const std::int64_t rows = rows_of(input, rule.op.integers("normalized_shape"));
  rule.keep_elements(saturating_multiply(2, rows), input);
}

void save_group_norm(SavedRule& rule) {
  keep_contiguous(rule, "input");
  const Shape& input = rule.op.shape("input");
  const std::int64_t groups = rule.op.integer("num_groups", 1);
  rule.keep_elements(saturating_multiply(saturating_multiply(2, input.size(0)), groups), input);
}

void save_rms_norm(SavedRule& rule) {
  rule.keep_argument("input");
  const Shape& input = rule.op.shape("input");
  rule.keep_elements(rows_of(input, rule.op.integers("normalized_shape")), input);
  if (rule.needs_grad(rule.op.find_tensor("weight"))) {
    rule.keep_bytes(input.nbytes);
  }
}

void save_max_pool(SavedRule& rule) {
  rule.keep_argument("self");
  save_indices(rule);
}

void save_indices(SavedRule& rule) {
  if (const std::optional<ValueId> indices = rule.op.find_result(1)) {
    rule.keep(indices);
  } else {
    rule.keep_bytes(saturating_multiply(rule.op.result_shape().numel, kIndexBytes));
  }
}

void save_extreme(SavedRule& rule) {
  if (rule.op.op().results.size() > 1) {
    save_indices(rule);
    return;
  }
  for (const ValueId id : rule.op.tensors()) {
    rule.keep(id);
  }
}

void save_adaptive_avg_pool(SavedRule& rule) {
  const std::vector<std::int64_t> size = rule.op.integers("output_size");
  // To a single place is a mean, which keeps nothing.
  if (!std::ranges::all_of(size, [](std::int64_t extent) { return extent == 1; })) {
    rule.keep_argument("self");
  }
}

void save_dropout(SavedRule& rule) {
  if (rule.op.flag("train", true) && rule.op.number("p", 0.5) > 0.0) {
    rule.keep_bytes(rule.op.shape("input").nbytes);
  }
}

void save_feature_dropout(SavedRule& rule) {
  if (rule.op.flag("train", true) && rule.op.number("p", 0.5) > 0.0) {
    const Shape& input = rule.op.shape("input");
    rule.keep_elements(saturating_multiply(input.size(0), input.size(1)), input);
  }
}

void save_pad(SavedRule& rule) {
  const std::string_view mode = rule.op.text("mode");
  if (mode == "reflect" || mode == "replicate") {
    rule.keep_argument("self");
  }
}

void save_pow(SavedRule& rule) {
  const bool raised_to_tensor = rule.op.find_tensor("exponent").has_value();
  rule.keep_argument("self");
  if (raised_to_tensor) {
    rule.keep_argument("exponent");
    rule.keep(rule.op.find_result());
  }
}

void save_cross_entropy(SavedRule& rule) {
  rule.keep_bytes(rule.op.shape("self").nbytes);  // the log-probabilities
  rule.keep_argument("target");
}

void save_difference(SavedRule& rule) { rule.keep_bytes(rule.op.shape("self").nbytes); }

void save_log_sigmoid(SavedRule& rule) {
  rule.keep_argument("self");
  save_difference(rule);
}

}  // namespace ravnest::graph
