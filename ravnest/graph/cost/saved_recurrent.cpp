#include "ravnest/graph/cost/recurrent.h"
#include "ravnest/graph/cost/saved_rules.h"

// What autograd keeps of recurrent layers. In 32 bits an LSTM runs as one oneDNN
// call per layer and direction, with a workspace; everything else runs step by
// step and keeps the gates.

namespace ravnest::graph {

namespace {

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
  rule.keep_elements(saturating_multiply(saturating_multiply(joined, tensors), layer.layers - 1),
                     rule.op.shape("input"));
}

void keep_stepwise(SavedRule& rule, std::int64_t elements_per_direction) {
  const Recurrent layer = read_recurrent(rule.op);
  keep_input(rule, layer, layer.directions);
  keep_between(rule, layer, false);
  rule.keep_elements(saturating_multiply(elements_per_direction,
                                         saturating_multiply(layer.layers, layer.directions)),
                     rule.op.shape("input"));
}

}  // namespace

void save_lstm(SavedRule& rule) {
  const Recurrent layer = read_recurrent(rule.op);
  const Shape& input = rule.op.shape("input");
  if (input.dtype == DType::kFloat64) {
    keep_stepwise(rule, saturating_multiply(layer.output(), 7));
    return;
  }
  keep_input(rule, layer, 1);
  keep_between(rule, layer, true);
  const std::int64_t later = saturating_multiply(layer.hidden, layer.directions);
  for (std::int64_t direction = 0; direction < layer.directions; ++direction) {
    rule.keep_bytes(lstm_workspace_bytes(layer, layer.input));
    rule.keep_bytes(saturating_multiply(lstm_workspace_bytes(layer, later), layer.layers - 1));
  }
  // The last layer's output is the result where there is one direction only.
  const std::int64_t calls = saturating_multiply(layer.layers, layer.directions);
  const std::int64_t unnamed = layer.directions == 1 ? calls - 1 : calls;
  rule.keep(layer.directions == 1 ? rule.op.find_result() : std::nullopt);
  rule.keep_elements(saturating_multiply(layer.output(), unnamed), input);
  rule.keep_elements(saturating_multiply(layer.state(), saturating_multiply(calls, 4)), input);
}

void save_gru(SavedRule& rule) {
  keep_stepwise(rule, saturating_multiply(read_recurrent(rule.op).output(), 7));
}

void save_rnn(SavedRule& rule) {
  const Recurrent layer = read_recurrent(rule.op);
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
