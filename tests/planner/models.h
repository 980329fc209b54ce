#pragma once

#include <random>
#include <string>
#include <vector>

#include "ravnest/graph/program.h"
#include "ravnest/graph/text/text.h"

namespace ravnest::planner {

// A chain of products: x[batch, widths[0]] times a weight per layer.
inline graph::Program make_chain(const std::vector<int>& widths, int batch = 16) {
  std::string weights;
  std::string inputs;
  std::string ops;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const std::string type =
        "f32[" + std::to_string(widths[i]) + ", " + std::to_string(widths[i + 1]) + "]";
    const std::string name = "layer" + std::to_string(i) + ".weight";
    weights += "weight parameter \"" + name + "\" : " + type + "\n";
    inputs += "  parameter %w" + std::to_string(i) + " : " + type + " = \"" + name + "\"\n";
    ops += "  %h" + std::to_string(i + 1) + " : f32[" + std::to_string(batch) + ", " +
           std::to_string(widths[i + 1]) + "] = aten.mm.default(self=%h" + std::to_string(i) +
           ", mat2=%w" + std::to_string(i) + ")\n";
  }
  return graph::parse_text(weights + "graph\n" + inputs + "  input %h0 : f32[" +
                           std::to_string(batch) + ", " + std::to_string(widths[0]) + "]\n" + ops +
                           "  return %h" + std::to_string(widths.size() - 1) + "\n");
}

}  // namespace ravnest::planner
