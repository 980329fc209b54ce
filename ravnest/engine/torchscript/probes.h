#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ravnest/engine/torchscript/value.h"
#include "ravnest/graph/program.h"

namespace ravnest::engine {

// Shapes by trial: beside the graph that is being built, the same calls run on tensors without
// data, once for every batch size tried. What agrees in all trials is a constant; a size that
// differs is an expression in the symbol s0. Where an operator cannot run without data it runs on
// zeros. Values may have no trial: then nothing is known of them.
class ScriptProbes {
 public:
  // One value per trial.
  using Trials = std::vector<c10::IValue>;

  // No batches: one trial of everything that does not depend on the inputs. One: sizes are fixed.
  explicit ScriptProbes(std::vector<std::int64_t> batches, std::int64_t hint = 0);

  std::size_t count() const { return batches_.empty() ? 1 : batches_.size(); }
  bool has_symbol() const { return batches_.size() > 1; }
  std::int64_t hint() const { return hint_; }
  std::int64_t batch(std::size_t trial) const { return batches_[trial]; }

  void set(graph::ValueId id, Trials trials) { trials_[id] = std::move(trials); }
  const Trials* find(graph::ValueId id) const;
  // Known values are the same in all trials. Nothing when any part has none.
  std::optional<Trials> of(const ScriptValue& value) const;
  // Per trial, the stack of arguments.
  std::optional<std::vector<std::vector<c10::IValue>>> stacks_of(
      const std::vector<ScriptValue>& arguments) const;

  // Calls an operator in all trials: per result, its trials. Nothing if an argument has none or
  // the operator cannot run without real data. Throws std::invalid_argument, naming `where`, if
  // the operator refuses its arguments.
  std::optional<std::vector<Trials>> call(const c10::OperatorHandle& op,
                                          const std::vector<ScriptValue>& arguments,
                                          const std::string& where);

  // The size with these values in the trials; nothing if it is no simple function of the batch.
  std::optional<graph::Expr> expression(const std::vector<std::int64_t>& sizes) const;
  // kUnknown where it cannot be told.
  graph::TensorType type_of(const Trials& tensors) const;

  // Operators whose results' shapes are not known, for the record.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  bool call_once(const c10::OperatorHandle& op, std::vector<c10::IValue>& stack, std::size_t trial,
                 const std::string& where);

  std::vector<std::int64_t> batches_;
  std::int64_t hint_;
  std::unordered_map<graph::ValueId, Trials> trials_;
  std::vector<std::string> notes_;
};

// A tensor of this form without data.
at::Tensor without_data(const at::Tensor& tensor);
// The same with another first size.
at::Tensor without_data(const at::Tensor& tensor, std::int64_t first_size);

}  // namespace ravnest::engine
