#pragma once

#include <string>
#include <string_view>

#include "ravnest/graph/program.h"

namespace ravnest::graph {

// The text form of a Program: everything but the bytes of its weights, one
// statement a line, ASCII. It is what print(program) shows and what tests write.
//
//   program
//   metadata "loss" = "true"
//   weight parameter "conv.weight" : f32[16, 1, 3, 3]
//   weight parameter "tied.weight" : f32[16, 1, 3, 3] key "conv.weight"
//   weight buffer "mask" : bool[8, 8] transient
//   graph
//     symbol s0 = 64 in [2, inf]
//     parameter %w : f32[16, 1, 3, 3] = "conv.weight"
//     input %x : f32[s0, 1, 8, 8]
//     literal "flag" = true
//     %n : int(s0) = aten.sym_size.int(self=%x, dim=0)
//     %y : f32[s0, 16, 6, 6] = aten.conv2d.default(input=%x, weight=%w) in "conv" at "net.py:9"
//     [%a : f32[s0, 8, 6, 6], %b : ?] = aten.split.Tensor(self=%y, split_size=8, dim=1)
//     %h : ?, _ = aten.max.dim(self=%a, dim=0)
//     return %h, [%b, %n], none
//     in_spec "…"
//     out_spec "…"
//   graph eval
//     …
//
// - The header is optional; `#` begins a comment; a string has C's escapes
//   \" \\ \n \r \t \xNN. A name that is not [A-Za-z_][A-Za-z0-9_.]* is quoted: %"a b".
// - A type is `?` (nothing known), int, float, bool, or a tensor's: f32[2, 3]
//   strides(1, 2) offset(4) requires_grad @cuda:0, where strides are left out when
//   contiguous and parameters require a gradient unless they say no_grad.
// - An argument is none, %value, true, 3, 0.5, complex(0.0, 1.0), "text", f32,
//   channels_last, @cpu or a list. `name:=value` passes it by keyword alone. A list
//   says what it holds where its items do not: floats[], optional_tensors[%x].
//
// parse_text(to_text(p)) equals p, except that values nobody defines are gone and
// the others are numbered in the order of their definition.

std::string to_text(const Program& program);
std::string to_text(const Graph& graph);

// Throws std::invalid_argument, "[graph] line 7, column 12: expected …, got ….",
// also where a value is used before it is defined. Weights have no bytes.
Program parse_text(std::string_view text);

}  // namespace ravnest::graph
