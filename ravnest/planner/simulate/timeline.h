#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ravnest::planner {

struct Plan;
struct Simulation;

struct Span {
  double from = 0.0;  // seconds
  double to = 0.0;
};

enum class BlockKind : std::uint8_t {
  kForward,
  kBackward,
  kMixed,  // several that are too short to be told apart
};

// What a machine computes without a break.
struct Block {
  BlockKind kind = BlockKind::kForward;
  Span span;
  std::uint64_t pass = 0;  // counted from 1; 0 for mixed ones
  bool updates = false;    // ends with an update
};

struct TimelineRow {
  std::size_t cluster = 0;
  std::size_t stage = 0;
  std::vector<Block> blocks;
  std::vector<Span> averaging;
  std::vector<Span> away;
};

// The first seconds of a simulation, for at most `kTimelineRows` machines. Blocks that
// would be too narrow to see are kept together, so that its size is bounded.
struct Timeline {
  double seconds = 0.0;
  std::vector<TimelineRow> rows;
};

inline constexpr std::size_t kTimelineRows = 12;

// Appends to a row, in the order of time; what lies outside the window is left out.
void add_block(TimelineRow& row, Block block, double window);

// The timeline as an SVG picture: one row for each machine. Stands alone (no scripts, no
// links, its own background). Throws std::invalid_argument where the simulation was made
// without a timeline.
std::string timeline_svg(const Plan& plan, const Simulation& simulation);

}  // namespace ravnest::planner
