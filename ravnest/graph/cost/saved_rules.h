#pragma once

#include <vector>

#include "ravnest/graph/cost/op_view.h"
#include "ravnest/graph/cost/saved.h"

namespace ravnest::graph {

// What a rule of `find_saved` reads and adds to. Rules for the ops whose
// keepings a list of names cannot tell are below, by family.
class SavedRule {
 public:
  SavedRule(const OpView& view, const std::vector<bool>& needs, Saved& saved)
      : op(view), needs_(needs), saved_(saved) {}

  bool needs_grad(std::optional<ValueId> id) const { return id && needs_[*id]; }
  void keep(std::optional<ValueId> id);
  // An in-place op overwrites its argument, so autograd keeps a copy.
  void keep_argument(std::string_view argument);
  void keep_bytes(std::int64_t nbytes);
  // One element of the dtype of `like`, `count` times.
  void keep_elements(std::int64_t count, const Shape& like);

  const OpView& op;  // NOLINT: a plain view, borrowed

 private:
  const std::vector<bool>& needs_;
  Saved& saved_;
};

void save_linear(SavedRule& rule);
void save_matmul(SavedRule& rule);
void save_einsum(SavedRule& rule);
void save_convolution(SavedRule& rule);
void save_attention(SavedRule& rule);

void save_batch_norm(SavedRule& rule);
void save_instance_norm(SavedRule& rule);
void save_layer_norm(SavedRule& rule);
void save_group_norm(SavedRule& rule);
void save_rms_norm(SavedRule& rule);
void save_max_pool(SavedRule& rule);
void save_adaptive_avg_pool(SavedRule& rule);
void save_dropout(SavedRule& rule);
void save_feature_dropout(SavedRule& rule);
void save_pad(SavedRule& rule);
void save_pow(SavedRule& rule);
// Values with their indices: sort, topk.
void save_indices(SavedRule& rule);
// max, min, median: with indices along a dimension, without over everything.
void save_extreme(SavedRule& rule);
void save_cross_entropy(SavedRule& rule);
// One tensor of the size of the argument that no value names, and the argument
// itself where the rule says so.
void save_difference(SavedRule& rule);
void save_log_sigmoid(SavedRule& rule);

void save_lstm(SavedRule& rule);
void save_gru(SavedRule& rule);
void save_rnn(SavedRule& rule);
void save_lstm_cell(SavedRule& rule);
void save_gru_cell(SavedRule& rule);

}  // namespace ravnest::graph
