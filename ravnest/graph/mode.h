#pragma once

#include "ravnest/graph/program.h"

namespace ravnest::graph {

// Training or evaluation is a flag of the run: one graph, captured in training,
// serves both. These functions know which operators follow the flag.

// The graph as it runs in evaluation: dropout passes values on, normalisation
// uses its running statistics and leaves them alone. An operator that was
// captured switched off stays off.
Graph eval_form(const Graph& graph);

// Whether `a` computes what `b` does, up to names of values, dropout that is
// switched off, and copies that only `a` makes (contiguous). Sound, not
// complete: a `false` only costs a second graph.
bool computes_same(const Graph& a, const Graph& b);

// The graph to run in evaluation, given or derived.
Graph graph_for_eval(const Program& program);

// Drops `eval_graph` where eval_form(graph) computes the same.
void drop_redundant_eval(Program& program);

}  // namespace ravnest::graph
