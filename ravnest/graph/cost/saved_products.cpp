#include <algorithm>
#include <array>
#include <string>

#include "ravnest/graph/cost/saved_rules.h"

// What autograd keeps of products. Batched products work on three dimensions:
// an operand whose leading dimensions cannot be merged is copied, and the copy
// is what is kept.

namespace ravnest::graph {

namespace {

void keep_or_copy(SavedRule& rule, ValueId operand, bool is_view) {
  if (is_view) {
    rule.keep(operand);
  } else {
    rule.keep_bytes(rule.op.shape(operand).nbytes);
  }
}

// The last two dimensions exchanged.
Shape transposed(Shape shape) {
  const std::size_t rank = shape.rank();
  std::swap(shape.sizes[rank - 1], shape.sizes[rank - 2]);
  if (!shape.strides.empty()) {
    std::swap(shape.strides[rank - 1], shape.strides[rank - 2]);
  }
  return shape;
}

// A matrix against a batch: the batch is folded into the rows.
void save_folded(SavedRule& rule, ValueId batch, ValueId matrix, bool batch_first) {
  rule.keep(rule.needs_grad(batch) ? std::optional(matrix) : std::nullopt);
  if (rule.needs_grad(matrix)) {
    const Shape& shape = rule.op.shape(batch);
    keep_or_copy(rule, batch,
                 can_merge(batch_first ? shape : transposed(shape), 0, shape.rank() - 1));
  }
}

std::int64_t batch_of(const Shape& shape) {
  return saturating_product(std::span(shape.sizes).first(shape.rank() - 2));
}

void save_batched(SavedRule& rule, ValueId operand) {
  const Shape& shape = rule.op.shape(operand);
  const Shape& result = rule.op.result_shape();
  const std::int64_t batch = result.rank() < 2 ? 1 : batch_of(result);
  if (batch != batch_of(shape)) {
    rule.keep_elements(
        saturating_multiply(batch, saturating_multiply(shape.size(-1), shape.size(-2))), shape);
  } else {
    keep_or_copy(rule, operand, can_merge(shape, 0, shape.rank() - 2));
  }
}

struct Einsum {
  std::array<std::string, 2> inputs;
  std::string output;
};

std::optional<Einsum> parse_einsum(std::string_view equation) {
  std::string text(equation);
  std::erase(text, ' ');
  const std::size_t comma = text.find(',');
  const std::size_t arrow = text.find("->");
  const bool is_pair = comma != std::string::npos && arrow != std::string::npos && comma < arrow &&
                       text.find(',', comma + 1) == std::string::npos &&
                       text.find('.') == std::string::npos;
  if (!is_pair) {
    return std::nullopt;
  }
  return Einsum{{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1)},
                text.substr(arrow + 2)};
}

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// Whether the operand is a view once it is ordered as (batch, own, summed) and
// each group is merged.
bool is_einsum_view(const Einsum& einsum, std::size_t index, const Shape& shape) {
  const std::string& own = einsum.inputs[index];
  const std::string& other = einsum.inputs[1 - index];
  if (own.size() != shape.rank()) {
    return true;
  }
  std::array<Shape, 3> groups;
  const auto add = [&](std::size_t group, char label) {
    const std::size_t dim = own.find(label);
    groups[group].sizes.push_back(shape.sizes[dim]);
    groups[group].numel = shape.numel;
    if (!shape.strides.empty()) {
      groups[group].strides.push_back(shape.strides[dim]);
    }
  };
  for (const char label : einsum.output) {
    if (has(own, label)) {
      add(has(other, label) ? 0 : 1, label);
    }
  }
  for (const char label : einsum.inputs[0]) {
    if (has(own, label) && !has(einsum.output, label)) {
      add(2, label);
    }
  }
  return std::ranges::all_of(groups,
                             [](const Shape& group) { return can_merge(group, 0, group.rank()); });
}

// The fused kernel keeps its operands, the result and a number per row.
bool is_fused_attention(const SavedRule& rule) {
  const OpView& op = rule.op;
  const auto fits = [&op](std::string_view name) {
    const Shape& shape = op.shape(name);
    return shape.rank() == 4 && (shape.strides.empty() || shape.strides[3] == 1) &&
           shape.size(3) == op.shape("query").size(3);
  };
  return op.number("dropout_p", 0.0) == 0.0 && !rule.needs_grad(op.find_tensor("attn_mask")) &&
         fits("query") && fits("key") && fits("value");
}

void save_fused_attention(SavedRule& rule) {
  const Shape& query = rule.op.shape("query");
  for (const std::string_view name : {"query", "key", "value"}) {
    rule.keep_argument(name);
  }
  rule.keep(rule.op.find_result());
  const std::int64_t rows = query.numel / std::max<std::int64_t>(query.size(-1), 1);
  rule.keep_bytes(saturating_multiply(rows, query.dtype == DType::kFloat64 ? 8 : 4));
  const Shape& mask = rule.op.shape("attn_mask");
  if (mask.dtype == DType::kBool) {
    rule.keep_elements(mask.numel, query);
  } else {
    rule.keep_argument("attn_mask");
  }
}

}  // namespace

void save_linear(SavedRule& rule) {
  const std::optional<ValueId> input = rule.op.find_tensor("input");
  const std::optional<ValueId> weight = rule.op.find_tensor("weight");
  if (input && weight) {
    const Shape& shape = rule.op.shape(*input);
    rule.keep(rule.needs_grad(input) ? weight : std::nullopt);
    if (rule.needs_grad(weight)) {
      keep_or_copy(rule, *input, shape.rank() < 3 || can_merge(shape, 0, shape.rank() - 1));
    }
  }
}

void save_matmul(SavedRule& rule) {
  const std::optional<ValueId> self = rule.op.find_tensor("self");
  const std::optional<ValueId> other = rule.op.find_tensor("other");
  if (!self || !other) {
    return;
  }
  const std::size_t left = rule.op.shape(*self).rank();
  const std::size_t right = rule.op.shape(*other).rank();
  if (left >= 3 && right <= 2) {
    save_folded(rule, *self, *other, true);
  } else if (right >= 3 && left <= 2) {
    save_folded(rule, *other, *self, false);
  } else {
    for (const auto& [operand, against] : {std::pair(*self, *other), std::pair(*other, *self)}) {
      if (!rule.needs_grad(against)) {
        continue;
      }
      if (left >= 3) {
        save_batched(rule, operand);
      } else {
        rule.keep(operand);
      }
    }
  }
}

void save_einsum(SavedRule& rule) {
  const std::vector<ValueId> operands = rule.op.tensors("tensors");
  const std::optional<Einsum> einsum = parse_einsum(rule.op.text("equation"));
  const auto wanting = std::ranges::count_if(
      operands, [&rule](ValueId operand) { return rule.needs_grad(operand); });
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool others_want = wanting > (rule.needs_grad(operands[i]) ? 1 : 0);
    if (!others_want) {
      continue;
    }
    const bool is_view =
        !einsum || operands.size() != 2 || is_einsum_view(*einsum, i, rule.op.shape(operands[i]));
    keep_or_copy(rule, operands[i], is_view);
  }
}

void save_convolution(SavedRule& rule) {
  const std::optional<ValueId> input = rule.op.find_tensor("input");
  const std::optional<ValueId> weight = rule.op.find_tensor("weight");
  rule.keep(rule.needs_grad(input) ? weight : std::nullopt);
  if (!input || !rule.needs_grad(weight)) {
    return;
  }
  const Shape& shape = rule.op.shape(*input);
  const Shape& kernel = rule.op.shape("weight");
  if (rule.op.text("padding") != "same") {
    rule.keep(input);
    return;
  }
  // "same" needs an uneven padding for an even kernel: a padded copy of the input.
  const std::vector<std::int64_t> dilation = rule.op.integers("dilation");
  std::int64_t padded = saturating_multiply(shape.size(0), shape.size(1));
  bool is_padded = false;
  for (std::size_t dim = 2; dim < std::min(shape.rank(), kernel.rank()); ++dim) {
    const std::int64_t step =
        dilation.empty() ? 1 : dilation[std::min(dim - 2, dilation.size() - 1)];
    const bool uneven = saturating_multiply(step, kernel.sizes[dim] - 1) % 2 != 0;
    is_padded = is_padded || uneven;
    padded = saturating_multiply(padded, saturating_add(shape.sizes[dim], uneven ? 1 : 0));
  }
  if (is_padded) {
    rule.keep_elements(padded, shape);
  } else {
    rule.keep(input);
  }
}

void save_attention(SavedRule& rule) {
  if (is_fused_attention(rule)) {
    save_fused_attention(rule);
    return;
  }
  const Shape& query = rule.op.shape("query");
  const Shape& key = rule.op.shape("key");
  const Shape& value = rule.op.shape("value");
  const std::int64_t rows = query.numel / std::max<std::int64_t>(query.size(-1), 1);
  const std::int64_t scores = saturating_multiply(rows, key.size(-2));
  rule.keep_bytes(query.nbytes);
  rule.keep_bytes(key.nbytes);
  rule.keep_elements(scores, query);
  if (const std::optional<ValueId> id = rule.op.find_tensor("value"); id && value.rank() >= 2) {
    keep_or_copy(rule, *id, can_merge(value, 0, value.rank() - 2));
  }
  if (rule.op.number("dropout_p", 0.0) > 0.0) {
    rule.keep_elements(saturating_multiply(scores, 2), query);
  }
}

}  // namespace ravnest::graph
