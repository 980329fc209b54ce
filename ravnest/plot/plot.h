#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ravnest::plot {

// What a run leaves behind; either list may be empty. Numbers that are not finite are gaps.
struct RunCurves {
  std::vector<double> losses;      // by batch
  std::vector<double> accuracies;  // of evaluations, in percent
  std::string title = "Training run";
};

// Draws the curves into a .png (two pixels a point) or .svg file, which appears whole or not
// at all: losses as they are, faint, and smoothed; accuracies in a panel of their own. Throws
// std::invalid_argument for another extension, where there is nothing to draw or a percent is
// none, and Error(kIo) where the disk refuses.
void plot_run(const RunCurves& curves, const std::filesystem::path& path);

// One number a line ("nan" and "inf" are numbers; empty lines are passed over). Throws
// std::invalid_argument naming file and line where there is something else or nothing, and
// Error(kIo) where the file cannot be read.
std::vector<double> read_numbers(const std::filesystem::path& path);

}  // namespace ravnest::plot
