#pragma once

#include <filesystem>

#include "ravnest/engine/torchscript/torchscript.h"
#include "ravnest/graph/program.h"

namespace ravnest::engine {

// Reads a model by what the file holds, whatever its name: a .pt2 archive or
// TorchScript. Nothing is ever unpickled: a pickled model or state dict is
// refused with std::invalid_argument that says what to save instead, and so is
// everything else. Throws Error(kIo) when the file cannot be read. The options are
// for TorchScript.
graph::Program load_program(const std::filesystem::path& path, const ImportOptions& options = {});

}  // namespace ravnest::engine
