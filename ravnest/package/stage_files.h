#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ravnest/graph/slice.h"
#include "ravnest/package/package.h"

namespace ravnest::package {

// What the files of a stage's folder are called, and what they hold (see package.h).

inline constexpr const char* kSubModel = "submod.pt2";

struct StagePlace {
  std::string plan;
  std::size_t cluster = 0;
  std::size_t stage = 0;
};

// Writes the files of one stage of a cut Program into its folder; the caller syncs them.
void write_stage(const graph::Program& program, const std::vector<graph::Stage>& stages,
                 const StagePlace& place, const std::filesystem::path& folder);

// Reads them back; throws std::invalid_argument where they belong elsewhere or do not fit
// each other.
graph::Stage read_stage_files(const StagePlace& place, const std::filesystem::path& folder);
// Of the root.
std::vector<StateName> read_state_file(const StagePlace& place,
                                       const std::filesystem::path& folder);

}  // namespace ravnest::package
