#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/blocks.h"
#include "ravnest/engine/torchscript/nodes.h"

namespace ravnest::engine {

namespace {

using torch::jit::Block;
using torch::jit::Node;

constexpr std::int64_t kMostIterations = 10'000;

std::optional<bool> find_bool(const ScriptValue& value) {
  const auto* constant = value.find<c10::IValue>();
  return constant != nullptr && constant->isBool() ? std::optional(constant->toBool())
                                                   : std::nullopt;
}

// Why the outcome of a branch or loop is unknown: the first one that is, or what it depends on.
Unknown reason_of(const ScriptEvaluator& evaluator, const std::string& what,
                  const ScriptValue& condition) {
  const auto* unknown = condition.find<Unknown>();
  if (unknown != nullptr && unknown->is_control_flow) {
    return *unknown;
  }
  return {.reason = what + (unknown != nullptr ? unknown->reason : "a size"),
          .where = evaluator.origin().where,
          .is_control_flow = true};
}

void take_branch(ScriptEvaluator& evaluator, const Node& node, const Block& block) {
  evaluator.evaluate_block(block);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    evaluator.bind(node.outputs()[i], evaluator.value(block.outputs()[i]));
  }
}

// An assertion is taken to hold; a branch that only computes something is left unknown, which
// matters if somebody needs it.
void evaluate_unknown_if(ScriptEvaluator& evaluator, const Node& node) {
  const Block& then = *node.blocks()[0];
  const Block& otherwise = *node.blocks()[1];
  if (always_raises(then)) {
    return take_branch(evaluator, node, otherwise);
  }
  if (always_raises(otherwise)) {
    return take_branch(evaluator, node, then);
  }
  const Unknown reason = reason_of(evaluator, "an if on ", evaluator.value(node.input()));
  if (!is_pure(then) || !is_pure(otherwise)) {
    refuse_unknown(reason);
  }
  evaluator.bind_all(node, {reason});
}

void evaluate_if(ScriptEvaluator& evaluator, const Node& node) {
  const auto condition = find_bool(evaluator.value(node.input()));
  if (!condition) {
    return evaluate_unknown_if(evaluator, node);
  }
  take_branch(evaluator, node, *node.blocks()[*condition ? 0 : 1]);
}

// Whether a loop goes on; nothing if that is unknown.
std::optional<bool> goes_on(const ScriptValue& limit, const ScriptValue& condition,
                            std::int64_t iteration) {
  const auto flag = find_bool(condition);
  const auto count = limit.find_int();
  if ((flag && !*flag) || (count && iteration >= *count)) {
    return false;
  }
  return flag && count ? std::optional(true) : std::nullopt;
}

void evaluate_unknown_loop(ScriptEvaluator& evaluator, const Node& node, const ScriptValue& limit,
                           const ScriptValue& condition) {
  const Unknown reason = reason_of(evaluator, "a loop over ", limit.find_int() ? condition : limit);
  if (!is_pure(*node.blocks()[0])) {
    refuse_unknown(reason);
  }
  evaluator.bind_all(node, {reason});
}

void evaluate_loop(ScriptEvaluator& evaluator, const Node& node) {
  const Block& body = *node.blocks()[0];
  ScriptEvaluator::Values carried = evaluator.inputs(node);
  const ScriptValue limit = carried[0];
  carried.erase(carried.begin());
  for (std::int64_t iteration = 0;; ++iteration) {
    const auto again = goes_on(limit, carried[0], iteration);
    if (!again) {
      return evaluate_unknown_loop(evaluator, node, limit, carried[0]);
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
