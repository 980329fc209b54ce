#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ravnest::graph {

// What the Program layer knows of an operator without libtorch.
struct OperatorTraits {
  bool is_size = false;        // computes sizes (ints, floats, bools), not tensors
  bool aliases = false;        // its results may share memory with its tensor arguments
  bool mutates = false;        // changes its first argument in place and returns it
  bool mutates_other = false;  // changes running statistics or noise given to it
  bool random = false;         // may draw from the random generator
};

// The traits of an operator a Program may name, such as "aten.relu_.default" or
// "_operator.mul"; nothing for all others (files, custom classes, devices, …).
std::optional<OperatorTraits> find_operator(std::string_view target);

}  // namespace ravnest::graph
