#include "ravnest/engine/torchscript/blocks.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

#include "ravnest/base/error.h"

namespace ravnest::engine {

namespace {

using torch::jit::Block;
using torch::jit::Node;
namespace prim = c10::prim;

constexpr int kDeepestLook = 64;

// The graph that a call node runs, if it can be told without running anything.
const torch::jit::Graph* find_callee(const Node& node) {
  torch::jit::Function* function = nullptr;
  if (node.kind() == prim::CallFunction) {
    function = node.input(0)->type()->expectRef<c10::FunctionType>().function();
  } else if (node.kind() == prim::CallMethod) {
    const auto type = node.input(0)->type()->cast<c10::ClassType>();
    function = type ? type->findMethod(node.s(c10::attr::name)) : nullptr;
  }
  auto* graph_function = function == nullptr ? nullptr : torch::jit::tryToGraphFunction(*function);
  return graph_function == nullptr ? nullptr : graph_function->graph().get();
}

bool raises_within(const Block& block, int depth);

bool raises_within(const Node& node, int depth) {
  if (node.kind() == prim::RaiseException) {
    return true;
  }
  if (node.kind() == prim::If) {
    return raises_within(*node.blocks()[0], depth) && raises_within(*node.blocks()[1], depth);
  }
  const torch::jit::Graph* callee = depth < kDeepestLook ? find_callee(node) : nullptr;
  return callee != nullptr && raises_within(*callee->block(), depth + 1);
}

bool raises_within(const Block& block, int depth) {
  return std::ranges::any_of(block.nodes(),
                             [depth](const Node* node) { return raises_within(*node, depth); });
}

bool is_pure_within(const Block& block, int depth);

bool is_pure_within(const Node& node, int depth) {
  if (node.kind() == prim::CallFunction || node.kind() == prim::CallMethod) {
    const torch::jit::Graph* callee = depth < kDeepestLook ? find_callee(node) : nullptr;
    return callee != nullptr && is_pure_within(*callee->block(), depth + 1);
  }
  if (node.kind() == prim::SetAttr || node.kind() == prim::Enter || node.kind() == prim::Exit) {
    return false;
  }
  const auto* schema = node.maybeSchema();
  const bool random = schema != nullptr && node.isNondeterministic();
  if (random || (schema != nullptr && schema->is_mutable())) {
    return false;
  }
  return std::ranges::all_of(node.blocks(),
                             [depth](const Block* inner) { return is_pure_within(*inner, depth); });
}

bool is_pure_within(const Block& block, int depth) {
  return std::ranges::all_of(block.nodes(),
                             [depth](const Node* node) { return is_pure_within(*node, depth); });
}

}  // namespace

bool always_raises(const Block& block) { return raises_within(block, 0); }

bool is_pure(const Block& block) { return is_pure_within(block, 0); }

SourceLine source_line(const Node& node) {
  torch::jit::SourceRange range = node.sourceRange();
  // An archive's own code is generated; what it was generated from is what the user knows.
  if (const auto original = range.findSourceRangeThatGenerated()) {
    range = *original;
  }
  if (const auto place = range.file_line_col()) {
    const auto& [file, line, column] = *place;
    return {.file = file,
            .line = line,
            .in_library = file.find("site-packages/torch/") != std::string::npos};
  }
  if (!range.source()) {
    return {};
  }
  return {.file = "", .line = range.source()->lineno_for_offset(range.start()) + 1};
}

std::string SourceLine::brief() const {
  return file.empty() ? full() : concat(file.substr(file.rfind('/') + 1), ":", line);
}

std::string SourceLine::full() const {
  return file.empty() ? concat("forward, line ", line) : concat(file, ":", line);
}

}  // namespace ravnest::engine
