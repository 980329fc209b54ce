#pragma once

#include <cstdint>

#include "ravnest/graph/cost/op_view.h"

namespace ravnest::graph {

// The sizes of an LSTM, GRU or RNN op.
struct Recurrent {
  std::int64_t steps = 1;
  std::int64_t batch = 1;
  std::int64_t hidden = 1;
  std::int64_t input = 1;
  std::int64_t layers = 1;
  std::int64_t directions = 1;
  bool drops = false;
  bool copies_input = false;  // batch first: the kernel reads a transposed copy

  // Elements of one layer in one direction.
  std::int64_t rows() const { return saturating_multiply(steps, batch); }
  std::int64_t output() const { return saturating_multiply(rows(), hidden); }
  std::int64_t state() const { return saturating_multiply(batch, hidden); }
};

Recurrent read_recurrent(const OpView& op);

// The workspace of oneDNN's LSTM for one layer in one direction whose input has
// this many columns: gates and outputs of every step, and states and their
// gradients of one step more. Fitted to measured ones, within 4 %.
std::int64_t lstm_workspace_bytes(const Recurrent& layer, std::int64_t input);

}  // namespace ravnest::graph
