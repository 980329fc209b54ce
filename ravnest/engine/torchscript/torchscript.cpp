#include "ravnest/engine/torchscript/torchscript.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/evaluator.h"
#include "ravnest/engine/torchscript/signature.h"
#include "ravnest/engine/torchscript/types.h"

namespace ravnest::engine {

namespace {

// One way to learn shapes: which sizes vary, and what they are in the trials.
struct Attempt {
  BatchScope scope = BatchScope::kNone;
  std::vector<std::int64_t> batches;
};

// Neighbours and an odd relative tell constants from sizes, and straight lines from others. A
// batch of one is left out: it broadcasts.
std::vector<Attempt> attempts_for(const ImportOptions& options) {
  if (options.example_args.empty() && options.example_kwargs.empty()) {
    return {{}};
  }
  const std::int64_t batch = example_batch(options);
  const std::int64_t first = std::max<std::int64_t>(batch, 2);
  const std::vector<std::int64_t> batches = {first, first + 1, 2 * first + 1};
  std::vector<Attempt> attempts;
  if (batch > 0) {
    attempts.push_back({BatchScope::kAllTensors, batches});
    attempts.push_back({BatchScope::kFirstTensor, batches});
  }
  attempts.push_back({BatchScope::kNone, {batch}});
  return attempts;
}

class Importer {
 public:
  Importer(const torch::jit::Module& module, const ImportOptions& options, const Attempt& attempt)
      : module_(module),
        options_(options),
        attempt_(attempt),
        weights_(module, options.transient_buffers) {}

  graph::Program run() {
    graph::Program program;
    program.graph = flatten(true);
    program.eval_graph = flatten(false);
    program.weights = used_weights(program);
    program.metadata["arguments"] = arguments_;
    if (!note_.empty()) {
      program.metadata["import_note"] = "shapes unknown after " + note_;
    }
    return program;
  }

 private:
  graph::Graph flatten(bool training) {
    ScriptGraph graph(weights_, ScriptProbes(attempt_.batches, example_batch(options_)));
    const auto& schema = module_.get_method("forward").function().getSchema();
    ScriptEvaluator evaluator(graph, module_, training);
    BoundInputs bound = bind_inputs(evaluator, schema, options_, attempt_.scope);
    const ScriptValue result = evaluator.run_forward(std::move(bound.arguments));
    arguments_ = bound.names;
    graph.set_specs(bound.in_spec, bind_outputs(evaluator, result));
    note_ = graph.probes().notes().empty() ? note_ : graph.probes().notes().front();
    return graph.finish();
  }

  // Constants are there for the graphs alone.
  std::vector<graph::Weight> used_weights(const graph::Program& program) const {
    std::set<std::string> used;
    for (const graph::Graph* graph : {&program.graph, &*program.eval_graph}) {
      for (const graph::Input& input : graph->inputs) {
        used.insert(input.target);
      }
    }
    std::vector<graph::Weight> kept;
    for (const graph::Weight& weight : weights_.all()) {
      if (weight.kind != graph::InputKind::kConstant || used.contains(weight.name)) {
        kept.push_back(weight);
      }
    }
    return kept;
  }

  const torch::jit::Module& module_;
  const ImportOptions& options_;
  const Attempt& attempt_;
  ScriptWeights weights_;
  std::string arguments_;
  std::string note_;
};

void check_module(const torch::jit::Module& module) {
  if (!module.find_method("forward")) {
    throw_invalid("[torchscript] expected a module with one forward, got ",
                  module.type()->name()->qualifiedName(), ", which has none or several.");
  }
  if (!module.type()->getForwardHooks().empty() || !module.type()->getForwardPreHooks().empty()) {
    throw_invalid("[torchscript] expected a module without forward hooks, got ",
                  module.type()->name()->qualifiedName(), " with some. Remove them first.");
  }
}

graph::Program import_once(const torch::jit::Module& module, const ImportOptions& options,
                           const Attempt& attempt) {
  try {
    return Importer(module, options, attempt).run();
  } catch (const c10::Error& error) {
    throw_invalid("[torchscript] expected a forward that libtorch can follow, got: ",
                  brief_error(error));
  }
}

}  // namespace

graph::Program import_torchscript(const torch::jit::Module& module, const ImportOptions& options) {
  check_module(module);
  const std::vector<Attempt> attempts = attempts_for(options);
  std::string refusal;
  for (std::size_t i = 0; i + 1 < attempts.size(); ++i) {
    try {
      return import_once(module, options, attempts[i]);
    } catch (const std::invalid_argument& error) {
      refusal = refusal.empty() ? error.what() : refusal;
    }
  }
  graph::Program program = import_once(module, options, attempts.back());
  if (!refusal.empty()) {
    program.metadata["import_note"] =
        concat("the batch size is fixed at ", example_batch(options), ": ", refusal);
  }
  return program;
}

namespace {

template <typename Source>
torch::jit::Module load(Source&& source, const std::string& name) {
  try {
    return torch::jit::load(source, c10::Device(c10::kCPU));
  } catch (const std::exception& error) {
    throw_invalid("[torchscript] '", name,
                  "': expected a TorchScript archive, got: ", brief_error(error));
  }
}

}  // namespace

graph::Program import_torchscript(std::istream& stream, const ImportOptions& options) {
  return import_torchscript(load(stream, "stream"), options);
}

graph::Program import_torchscript(const std::filesystem::path& path, const ImportOptions& options) {
  if (!std::ifstream(path).is_open()) {
    throw Error(ErrorKind::kIo, concat("[torchscript] cannot open '", path.string(), "'."));
  }
  return import_torchscript(load(path.string(), path.string()), options);
}

}  // namespace ravnest::engine
