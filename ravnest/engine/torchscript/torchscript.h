#pragma once

#include <ATen/core/ivalue.h>

#include <filesystem>
#include <iosfwd>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/graph/program.h"

namespace torch::jit {
struct Module;
}

namespace ravnest::engine {

struct ImportOptions {
  // What forward is called with, as an example: tensors, numbers, or tuples, lists and dicts of
  // them. Empty: shapes stay unknown, and arguments that have a default keep it. With examples
  // every value gets its type, and everything but tensors is fixed to the example.
  std::vector<c10::IValue> example_args = {};
  std::vector<std::pair<std::string, c10::IValue>> example_kwargs = {};
  // Buffers that are not part of the state dict; TorchScript itself does not remember them.
  std::set<std::string> transient_buffers = {};
};

// Flattens `forward` of a TorchScript module into a Program: `graph` as in training, `eval_graph`
// always present, weights under their own names and in the order of the state dict. Branches and
// loops are decided while importing; those that depend on data or on unknown shapes are refused
// with the line they stand in. With examples the first dimension shared by the inputs is the
// symbol s0, and what is the same for several such sizes is taken for a constant; where the model
// fixes it, metadata "import_note" says why. Metadata "arguments" names the positional inputs,
// "x,mask".
//
// Throws std::invalid_argument for what is not TorchScript or cannot be flattened, and Error(kIo)
// for a file that cannot be read. Use from one thread; the module is not changed.
graph::Program import_torchscript(const std::filesystem::path& path,
                                  const ImportOptions& options = {});
graph::Program import_torchscript(std::istream& stream, const ImportOptions& options = {});
graph::Program import_torchscript(const torch::jit::Module& module,
                                  const ImportOptions& options = {});

}  // namespace ravnest::engine
