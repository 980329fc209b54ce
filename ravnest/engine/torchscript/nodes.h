#pragma once

#include <string>
#include <unordered_map>

#include "ravnest/engine/torchscript/evaluator.h"

namespace ravnest::engine {

// What the nodes of TorchScript's graphs do, by their names ("prim::If"). A node reads its inputs
// from the evaluator and binds its outputs. Names that are not here are operators.

using NodeHandler = void (*)(ScriptEvaluator&, const torch::jit::Node&);
using NodeHandlers = std::unordered_map<std::string, NodeHandler>;

void add_control_nodes(NodeHandlers& handlers);        // branches, loops, exceptions
void add_object_nodes(NodeHandlers& handlers);         // calls, attributes, contexts
void add_container_nodes(NodeHandlers& handlers);      // constants, lists, tuples, dicts
void add_list_nodes(NodeHandlers& handlers);           // Python's methods of lists
void add_dict_nodes(NodeHandlers& handlers);           // and of dicts
void add_number_nodes(NodeHandlers& handlers);         // sizes and numbers
void add_number_tensor_nodes(NodeHandlers& handlers);  // tensors made of numbers

// Everything with a schema: computed now if it can be, else an op of the graph.
void evaluate_operator(ScriptEvaluator& evaluator, const torch::jit::Node& node);

// The first argument, null where it is none. Many names of Python's methods also mean operators on
// tensors, numbers and strings; a list or dict as the first argument makes them Python's.
ScriptList* find_list(ScriptEvaluator& evaluator, const torch::jit::Node& node);
ScriptDict* find_dict(ScriptEvaluator& evaluator, const torch::jit::Node& node);

}  // namespace ravnest::engine
