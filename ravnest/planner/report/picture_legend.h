#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ravnest/planner/plan.h"
#include "ravnest/planner/report/svg.h"

namespace ravnest::planner {

// What the picture of a plan and its legends share.

inline constexpr std::string_view kPaper = "#ffffff";
inline constexpr std::string_view kRamFill = "#eef1f5";
inline constexpr std::string_view kRamLine = "#8a96a6";
inline constexpr double kBandHeight = 16;  // of a ring's colour

struct MemoryPart {
  std::string_view name;
  std::int64_t StageMemory::* nbytes;
  std::string_view colour;
};

inline constexpr std::array kMemoryParts{
    MemoryPart{"weights", &StageMemory::weights, "#1d3f72"},
    MemoryPart{"older versions", &StageMemory::versions, "#2f5f9e"},
    MemoryPart{"gradients", &StageMemory::gradients, "#4a80c4"},
    MemoryPart{"optimizer", &StageMemory::optimizer, "#74a3dc"},
    MemoryPart{"activations", &StageMemory::activations, "#9fc3ec"},
    MemoryPart{"temporary", &StageMemory::temporary, "#c7dff7"},
};

// The colour of one of the plan's rings.
std::string ring_colour(const Plan& plan, const Ring& ring);

// At most so many characters: the middle gives way to an ellipsis.
std::string cut_to(std::string_view text, std::size_t characters);
// "1 stage", "3 stages".
std::string counted(std::size_t count, const std::string& noun);

// Draws what the colours of memory and of the rings mean, and the spare machines, from the
// top of `place` in its width. Gives the y where they end.
double draw_legends(Svg& svg, const Plan& plan, const Box& place);

}  // namespace ravnest::planner
