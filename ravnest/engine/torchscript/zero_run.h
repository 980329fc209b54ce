#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

namespace ravnest::engine {

// What came of running an operator on zeros.
struct ZeroRun {
  std::optional<std::vector<c10::IValue>> results;  // tensors again without data
  std::string refusal;                              // why there are none; empty: too large
  bool depends_on_values = false;                   // and it could not be otherwise
};

// Runs an operator that has no kernel for tensors without data on CPU tensors of zeros, to learn
// the form of its results. The random generator is left as it was. Refuses operators whose shapes
// depend on values, and more memory than such a trial is worth.
ZeroRun run_on_zeros(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments);

}  // namespace ravnest::engine
