#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ravnest/agent/cache.h"
#include "ravnest/agent/lineup.h"
#include "ravnest/control/client.h"
#include "ravnest/package/package.h"

namespace ravnest::agent {

// A folder with all that `ravnest provider` needs to hold one place:
//   <folder>/nodes/node_<id>.json, <folder>/cluster_<c>/<address>/…   see package.h
//   <folder>/members.json     who may bear which name
//   <folder>/checkpoints/     checkpoints on their way to the server
struct Workplace {
  std::filesystem::path folder;
  package::NodeConfig node;

  std::string node_name() const;
  std::filesystem::path checkpoint() const;  // where it goes on from, if it is there
};

struct WorkplaceOptions {
  std::filesystem::path folder;  // is made anew
  std::string self;              // where this machine listens
  Resolve resolve;
  control::TransferOptions transfer;
};

// Fetches what is not here, and writes the rest. Weights as the assignment's origin says: `kept` is
// the checkpoint of the same place in an earlier epoch. Throws as Client::download does, and
// std::invalid_argument where the files do not fit the assignment.
Workplace make_workplace(const coordinator::Assignment& assignment, const control::Client& client,
                         Cache& cache, const std::optional<std::filesystem::path>& kept,
                         const WorkplaceOptions& options);

}  // namespace ravnest::agent
