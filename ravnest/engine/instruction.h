#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "ravnest/graph/program.h"

namespace c10 {
class OperatorHandle;
}

namespace ravnest::engine {

using Slot = std::uint32_t;
using Frame = std::vector<c10::IValue>;

// Puts one argument on an operator's stack: a constant made once, a slot of the
// frame, or a list with some items from slots.
class ArgumentLoader {
 public:
  // Converts to what the schema's `type` wants; throws std::invalid_argument
  // where that is impossible. `device` replaces devices written in the graph.
  ArgumentLoader(const graph::Argument& argument, const c10::TypePtr& type,
                 std::optional<c10::Device> device);
  explicit ArgumentLoader(c10::IValue constant) : constant_(std::move(constant)) {}

  c10::IValue load(Frame& frame) const;

  // The slot, when this is one alone: its last use may move the value.
  bool reads_slot_alone() const { return source_ == Source::kSlot; }
  Slot slot() const { return slot_; }
  void move_from_slot() { source_ = Source::kMovedSlot; }

 private:
  enum class Source : std::uint8_t { kConstant, kSlot, kMovedSlot, kList };

  c10::IValue constant_;
  Source source_ = Source::kConstant;
  bool wants_tensor_ = false;  // numbers are wrapped
  Slot slot_ = 0;
  c10::TypePtr element_type_;
  std::vector<ArgumentLoader> items_;
};

// Computes a size: "_operator.mul" and the like, over ints, floats and bools.
using SizeFunction = c10::IValue (*)(const std::vector<c10::IValue>& arguments);
SizeFunction find_size_function(const std::string& target);

}  // namespace ravnest::engine
