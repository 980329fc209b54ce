#pragma once

#include <vector>

#include "ravnest/graph/program.h"

namespace ravnest::graph {

// Where one input of a stage comes from.
struct Source {
  enum class Kind : std::uint8_t {
    kModel,     // input `index` of the whole model, straight to this stage
    kPrevious,  // output `index` of the stage before
  };
  Kind kind = Kind::kModel;
  std::size_t index = 0;

  bool operator==(const Source&) const = default;
};

// One part of a cut Program: again a Program, with flat inputs and outputs. The
// last stage's outputs are the model's. A weight that several stages use is in
// each of them, under the same name and storage.
struct Stage {
  Program program;
  std::vector<Source> sources;       // of the graph's user inputs, in order
  std::vector<Source> eval_sources;  // of the eval graph's, where there is one
};

// Cuts a Program before the ops with these indices (strictly increasing, each
// within (0, ops)). Values used later than in the next stage are routed through
// the stages between; model inputs go straight to the stages that use them.
// Chained, the stages compute what the whole does, also where operators change
// values in place across a cut. Where there is an eval graph it is cut so that
// every op is with its weights. Throws std::invalid_argument for bad cuts, and
// for the rare cut that would separate memory that may or may not be shared.
std::vector<Stage> slice(const Program& program, const std::vector<std::size_t>& cuts);

// Cuts into `stages` parts whose ops cost about the same to compute.
std::vector<std::size_t> near_equal_cuts(const Program& program, std::size_t stages);

}  // namespace ravnest::graph
