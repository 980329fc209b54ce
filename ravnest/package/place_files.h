#pragma once

#include <filesystem>

#include "ravnest/package/package.h"

namespace ravnest::package {

// Files of a stage that were written for a place of a plan, not for a machine (see plan_job.h), and
// are made those of one.

// Reads a node file as it came, under any name; `folder` is one of ours, where it lies for a
// moment. Throws as read_node does.
NodeConfig read_place(const std::filesystem::path& file, const std::filesystem::path& folder);

// Writes the node file of a machine into a plan's folder.
void write_machine(const NodeConfig& node, const std::filesystem::path& node_data);

// The small files that say what goes in and out name their cluster: this one, from now on. A file
// without one stays as it is. Other names of the file keep what they had.
void set_cluster(const std::filesystem::path& file, std::size_t cluster);

}  // namespace ravnest::package
