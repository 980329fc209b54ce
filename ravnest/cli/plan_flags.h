#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

#include "ravnest/graph/program.h"
#include "ravnest/planner/plan.h"

namespace ravnest::cli {

// The options of commands that make a plan.
struct PlanFlags {
  std::filesystem::path model;
  std::filesystem::path nodes = "node_data/node_configs.json";
  std::string clusters;
  std::string optimizer = "adam";
  std::int64_t batch = 0;
  std::uint64_t seed = 0;
  std::size_t population = 0;
  std::size_t generations = 0;

  void add_to(CLI::App& command);
  planner::PlanOptions options() const;
};

// A file that appears whole or not at all.
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace ravnest::cli
