#pragma once

#include <filesystem>

#include "ravnest/control/client.h"

namespace ravnest::control {

// Fetches what a job has trained, or what its restore point has where it was cancelled or failed,
// into a plan's folder, from which fuse::fuse_cluster makes one state dict; gives the cluster to
// fuse, the first of those that are kept. Throws as Client does.
std::size_t fetch_results(const Client& client, coordinator::JobId job,
                          const std::filesystem::path& node_data,
                          const TransferOptions& options = {});

}  // namespace ravnest::control
