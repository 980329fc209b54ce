#include "ravnest/base/error.h"
#include "ravnest/engine/script_blocks.h"
#include "ravnest/engine/script_nodes.h"

namespace ravnest::engine {

namespace {

using torch::jit::Block;
using torch::jit::Node;

constexpr std::int64_t kMostIterations = 10'000;

// A bool if it is known, else why it is not.
std::optional<bool> find_bool(const ScriptValue& value, std::string& reason) {
  if (const auto* constant = value.find<c10::IValue>(); constant != nullptr && constant->isBool()) {
    return constant->toBool();
  }
  const auto* unknown = value.find<Unknown>();
  reason = unknown != nullptr ? *unknown->reason : "a number computed at run time";
  return std::nullopt;
}

[[noreturn]] void refuse_data(const ScriptEvaluator& evaluator, const std::string& what,
                              const std::string& reason) {
  throw_invalid("[torchscript] ", evaluator.origin().where, ": expected control flow that is the ",
                "same for all data, got ", what, " that depends on ", reason,
                ". Pass example inputs if it depends on shapes, or write it without control flow ",
                "(torch.where) and export the model with torch.export.");
}

void take_branch(ScriptEvaluator& evaluator, const Node& node, const Block& block) {
  evaluator.evaluate_block(block);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    evaluator.bind(node.outputs()[i], evaluator.value(block.outputs()[i]));
  }
}

// An assertion is taken to hold; a branch that only computes something is left unknown, which
// matters if somebody needs it.
void evaluate_unknown_if(ScriptEvaluator& evaluator, const Node& node, const std::string& reason) {
  const Block& then = *node.blocks()[0];
  const Block& otherwise = *node.blocks()[1];
  if (always_raises(then)) {
    return take_branch(evaluator, node, otherwise);
  }
  if (always_raises(otherwise)) {
    return take_branch(evaluator, node, then);
  }
  if (!is_pure(then) || !is_pure(otherwise)) {
    refuse_data(evaluator, "an if", reason);
  }
  evaluator.bind_all(node, unknown(concat("an if at ", evaluator.origin().where, " on ", reason)));
}

void evaluate_if(ScriptEvaluator& evaluator, const Node& node) {
  std::string reason;
  const auto condition = find_bool(evaluator.value(node.input()), reason);
  if (!condition) {
    return evaluate_unknown_if(evaluator, node, reason);
  }
  take_branch(evaluator, node, *node.blocks()[*condition ? 0 : 1]);
}

// Whether a loop goes on; nothing if that is unknown.
std::optional<bool> goes_on(const ScriptValue& limit, const ScriptValue& condition,
                            std::int64_t iteration, std::string& reason) {
  const auto flag = find_bool(condition, reason);
  if (flag && !*flag) {
    return false;
  }
  const auto count = limit.find_int();
  if (!count) {
    find_bool(limit, reason);
    return std::nullopt;
  }
  if (iteration >= *count) {
    return false;
  }
  return flag;
}

void evaluate_loop(ScriptEvaluator& evaluator, const Node& node) {
  const Block& body = *node.blocks()[0];
  ScriptEvaluator::Values carried = evaluator.inputs(node);
  const ScriptValue limit = carried[0];
  carried.erase(carried.begin());
  for (std::int64_t iteration = 0;; ++iteration) {
    std::string reason;
    const auto again = goes_on(limit, carried[0], iteration, reason);
    if (!again) {
      if (!is_pure(body)) {
        refuse_data(evaluator, "a loop", reason);
      }
      return evaluator.bind_all(
          node, unknown(concat("a loop at ", evaluator.origin().where, " over ", reason)));
    }
    if (!*again) {
      break;
    }
    if (iteration == kMostIterations) {
      evaluator.refuse(concat("loops of ", kMostIterations, " iterations or less"), "more");
    }
    evaluator.bind(body.inputs()[0], known(iteration));
    for (std::size_t i = 1; i < body.inputs().size(); ++i) {
      evaluator.bind(body.inputs()[i], carried[i]);
    }
    evaluator.evaluate_block(body);
    for (std::size_t i = 0; i < carried.size(); ++i) {
      carried[i] = evaluator.value(body.outputs()[i]);
    }
  }
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    evaluator.bind(node.outputs()[i], carried[i + 1]);
  }
}

void raise(ScriptEvaluator& evaluator, const Node& node) {
  const auto* message = evaluator.value(node.input(0)).find<c10::IValue>();
  const bool is_text = message != nullptr && message->isString();
  throw_invalid("[torchscript] ", evaluator.origin().where, ": forward raises an exception",
                is_text ? ": " + message->toStringRef() : ".");
}

void ignore(ScriptEvaluator& evaluator, const Node& node) { evaluator.bind_all(node, known({})); }

}  // namespace

void add_control_nodes(NodeHandlers& handlers) {
  handlers["prim::If"] = evaluate_if;
  handlers["prim::Loop"] = evaluate_loop;
  handlers["prim::RaiseException"] = raise;
  handlers["prim::Print"] = ignore;
  handlers["aten::warn"] = ignore;
}

}  // namespace ravnest::engine
