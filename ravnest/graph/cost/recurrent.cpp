#include "ravnest/graph/cost/recurrent.h"

#include <algorithm>

namespace ravnest::graph {

namespace {

// Rows in oneDNN's workspace start at 64 bytes and avoid multiples of 1 KiB.
std::int64_t padded(std::int64_t columns) {
  const std::int64_t rounded = saturating_add(columns, 15) / 16 * 16;
  return rounded % 256 == 0 ? saturating_add(rounded, 16) : rounded;
}

}  // namespace

Recurrent read_recurrent(const OpView& op) {
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

std::int64_t lstm_workspace_bytes(const Recurrent& layer, std::int64_t input) {
  constexpr std::int64_t kAlignmentOfParts = 8192;
  const std::int64_t row = padded(layer.hidden);
  const std::int64_t gates = saturating_add(padded(saturating_multiply(layer.hidden, 4)), row);
  const std::int64_t wide = padded(std::max(input, layer.hidden));
  const std::int64_t states =
      saturating_add(saturating_multiply(6, wide), saturating_multiply(4, row));
  const std::int64_t elements =
      saturating_add(saturating_multiply(layer.rows(), gates),
                     saturating_multiply(saturating_add(layer.rows(), layer.batch), states));
  return saturating_add(saturating_multiply(elements, 4), kAlignmentOfParts);
}

}  // namespace ravnest::graph
