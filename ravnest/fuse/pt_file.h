#pragma once

#include <filesystem>

#include "ravnest/fuse/fuse.h"

namespace ravnest::fuse {

// Writes what torch.save would: a zip of raw storages and a pickle that says which tensor is
// where. Names of one tensor share a storage, as in the model.
void write_pt(const StateDict& state, const std::filesystem::path& path);

}  // namespace ravnest::fuse
