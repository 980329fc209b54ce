#include <algorithm>

#include "ravnest/graph/saved_rules.h"

// What autograd keeps of recurrent layers. In 32 bits an LSTM runs as one oneDNN
// call per layer and direction, with a workspace; everything else runs step by
// step and keeps the gates.

namespace ravnest::graph {

namespace {

struct Recurrent {
  std::int64_t steps = 1;
  std::int64_t batch = 1;
  std::int64_t hidden = 1;
  std::int64_t input = 1;
  std::int64_t layers = 1;
  std::int64_t directions = 1;
  bool drops = false;
  bool copies_input = false;  // batch first: the kernel reads a transposed copy

  std::int64_t rows() const { return saturating_multiply(steps, batch); }
  std::int64_t output() const { return saturating_multiply(rows(), hidden); }
  std::int64_t state() const { return saturating_multiply(batch, hidden); }
};

Recurrent read(const OpView& op) {
  const Shape& input = op.shape("input");
  const bool batch_first = op.flag("batch_first", false);
  Recurrent layer;
  layer.directions = op.flag("bidirectional", false) ? 2 : 1;
  layer.layers = std::max<std::int64_t>(op.integer("num_layers", 1), 1);
  layer.steps = input.size(batch_first ? 1 : 0);
  layer.batch = input.rank() < 3 ? 1 : input.size(batch_first ? 0 : 1);
  layer.input = input.size(-1);
  const std::vector<ValueId> params = op.tensors("params");
  layer.hidden = params.size() < 2 ? 1 : op.shape(params[1]).size(-1);
  layer.drops = op.flag("train", true) && op.number("dropout", 0.0) > 0.0;
  layer.copies_input = batch_first || !input.is_contiguous();
  return layer;
}

void keep_input(SavedRule& rule, const Recurrent& layer, std::int64_t copies) {
  if (layer.copies_input) {
    rule.keep_bytes(saturating_multiply(rule.op.shape("input").nbytes, copies));
  } else {
    rule.keep_argument("input");
  }
}

// Between layers: the joined directions, and what dropout made of them.
void keep_between(SavedRule& rule, const Recurrent& layer, bool output_is_kept) {
  const std::int64_t joined = saturating_multiply(layer.output(), layer.directions);
  const std::int64_t tensors = layer.drops ? 2 : (layer.directions == 1 && output_is_kept ? 0 : 1);
  rule.keep_elements(
      saturating_multiply(saturating_multiply(joined, tensors), layer.layers - 1),
      rule.op.shape("input"));
}

// Rows in oneDNN's workspace start at 64 bytes and avoid multiples of 1 KiB.
std::int64_t padded(std::int64_t columns) {
  const std::int64_t rounded = saturating_add(columns, 15) / 16 * 16;
  return rounded % 256 == 0 ? saturating_add(rounded, 16) : rounded;
}

// Gates and outputs of every step, and states and their gradients of one step
// more; fitted to measured workspaces, within 4 %.
std::int64_t workspace_bytes(const Recurrent& layer, std::int64_t input) {
  constexpr std::int64_t kSections = 8192;  // alignment of its parts
  const std::int64_t row = padded(layer.hidden);
  const std::int64_t gates = saturating_add(padded(saturating_multiply(layer.hidden, 4)), row);
  const std::int64_t wide = padded(std::max(input, layer.hidden));
  const std::int64_t states =
      saturating_add(saturating_multiply(6, wide), saturating_multiply(4, row));
  const std::int64_t elements =
      saturating_add(saturating_multiply(layer.rows(), gates),
                     saturating_multiply(saturating_add(layer.rows(), layer.batch), states));
  return saturating_add(saturating_multiply(elements, 4), kSections);
}

void keep_stepwise(SavedRule& rule, std::int64_t elements_per_direction) {
  const Recurrent layer = read(rule.op);
  keep_input(rule, layer, layer.directions);
  keep_between(rule, layer, false);
  rule.keep_elements(
      saturating_multiply(elements_per_direction, layer.layers * layer.directions),
      rule.op.shape("input"));
}

}  // namespace

void save_lstm(SavedRule& rule) {
  const Recurrent layer = read(rule.op);
  const Shape& input = rule.op.shape("input");
  if (input.dtype == DType::kFloat64) {
    keep_stepwise(rule, saturating_multiply(layer.output(), 7));
    return;
  }
  keep_input(rule, layer, 1);
  keep_between(rule, layer, true);
  const std::int64_t later = saturating_multiply(layer.hidden, layer.directions);
  for (std::int64_t direction = 0; direction < layer.directions; ++direction) {
    rule.keep_bytes(workspace_bytes(layer, layer.input));
    rule.keep_bytes(saturating_multiply(workspace_bytes(layer, later), layer.layers - 1));
  }
  // The last layer's output is the result where there is one direction only.
  const std::int64_t calls = saturating_multiply(layer.layers, layer.directions);
  const std::int64_t unnamed = layer.directions == 1 ? calls - 1 : calls;
  rule.keep(layer.directions == 1 ? rule.op.find_result() : std::nullopt);
  rule.keep_elements(saturating_multiply(layer.output(), unnamed), input);
  rule.keep_elements(saturating_multiply(layer.state(), saturating_multiply(calls, 4)), input);
}

void save_gru(SavedRule& rule) {
  keep_stepwise(rule, saturating_multiply(read(rule.op).output(), 7));
}

void save_rnn(SavedRule& rule) {
  const Recurrent layer = read(rule.op);
  keep_stepwise(rule, saturating_add(layer.output(), layer.state()));
}

void save_lstm_cell(SavedRule& rule) {
  rule.keep_argument("input");
  rule.keep_argument("hx");
  const Shape& state = rule.op.result_shape();
  rule.keep_bytes(saturating_multiply(state.nbytes, 5));
}

void save_gru_cell(SavedRule& rule) {
  rule.keep_argument("input");
  rule.keep_argument("hx");
  rule.keep_bytes(saturating_multiply(rule.op.result_shape().nbytes, 6));
}

}  // namespace ravnest::graph
