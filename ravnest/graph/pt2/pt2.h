#pragma once

#include <filesystem>
#include <string>

#include "ravnest/base/atomic_file.h"
#include "ravnest/base/bytes.h"
#include "ravnest/graph/program.h"

namespace ravnest::graph {

// The .pt2 archives of torch.export: JSON graphs, raw weights, no pickle. The
// archive's model "model" is the Program's graph; a second one, "eval", is there
// when the eval forward differs in structure.

// Reads an archive and lints it. Weights are views of the mapped file. Throws
// std::invalid_argument with the file, the place and the way out on anything
// that is not a well-formed archive of pure tensor operators, and Error(kIo)
// when the file cannot be opened.
Program read_pt2(const std::filesystem::path& path);
// The same from bytes in memory; `label` names them in errors.
Program read_pt2(const Bytes& archive, const std::string& label);

// Writes an archive that torch.export.load opens (where all shapes are known).
// Equal Programs give equal bytes. The file appears whole or not at all.
void write_pt2(const Program& program, const std::filesystem::path& path,
               Durability durability = Durability::kAtCommit);

// Tree specs, as torch.export writes them, of a flat call: a tuple of `inputs`
// positional arguments without keywords, and a tuple of `outputs`.
std::string flat_in_spec(std::size_t inputs);
std::string flat_out_spec(std::size_t outputs);

}  // namespace ravnest::graph
