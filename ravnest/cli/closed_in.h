#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/package/package.h"

namespace ravnest::cli {

struct ClosedInOptions {
  std::filesystem::path node_data;              // its own folder
  std::vector<std::filesystem::path> readable;  // identity and members
  std::optional<std::string> requester;         // "host:port"
  std::optional<double> ram_gb;
};

// Closes this process in (sandbox/sandbox.h) to what the node needs: its folder, its port, the
// ports of its peers. Before any thread. Gives what the kernel lacks for it, a sentence, or
// nothing.
std::string close_in(const package::NodeConfig& node, const ClosedInOptions& options);

}  // namespace ravnest::cli
