#include "ravnest/graph/slice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "ravnest/base/error.h"
#include "ravnest/graph/aliasing.h"
#include "ravnest/graph/slicer.h"

namespace ravnest::graph {

namespace {

void check_cuts(const Graph& graph, const std::vector<std::size_t>& cuts) {
  std::size_t before = 0;
  for (const std::size_t cut : cuts) {
    if (cut <= before || cut >= graph.ops.size()) {
      throw_invalid("[graph] expected cuts between 1 and ", graph.ops.size() - 1,
                    " in increasing order, got ", cut, " after ", before, ".");
    }
    before = cut;
  }
}

std::vector<StageIndex> stages_from_cuts(const Graph& graph, const std::vector<std::size_t>& cuts) {
  std::vector<StageIndex> stage_of_op(graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    stage_of_op[i] = static_cast<StageIndex>(std::ranges::upper_bound(cuts, i) - cuts.begin());
  }
  return stage_of_op;
}

using Homes = std::map<std::string, std::set<StageIndex>>;  // by weight: the stages that use it

// Cuts the eval graph so that every op is with its weights, in the order of the
// graph; nothing where that is impossible.
std::optional<std::vector<StageIndex>> stages_in_order(const Graph& graph, const Homes& homes) {
  std::unordered_map<ValueId, const Input*> weights;
  for (const Input& input : graph.inputs) {
    if (input.is_weight()) {
      weights.emplace(input.value, &input);
    }
  }
  StageIndex stage = 0;
  bool possible = true;
  std::vector<StageIndex> stage_of_op;
  for (const Op& op : graph.ops) {
    for_each_ref(op, [&](ValueId id) {
      const auto weight = weights.find(id);
      const auto home = weight == weights.end() ? homes.end() : homes.find(weight->second->target);
      if (home != homes.end()) {
        const auto at = home->second.lower_bound(stage);
        possible = possible && at != home->second.end();
        stage = possible ? *at : stage;
      }
    });
    stage_of_op.push_back(stage);
  }
  return possible ? std::optional(std::move(stage_of_op)) : std::nullopt;
}

// As above, out of order: every op as early as what it uses allows.
std::vector<StageIndex> stages_from_weights(const Graph& graph, const Homes& homes) {
  const Aliasing aliasing(graph);
  std::vector<StageIndex> of_value(graph.values.size(), 0);
  std::vector<const Input*> weights(graph.values.size(), nullptr);
  for (const Input& input : graph.inputs) {
    if (input.is_weight()) {
      weights[input.value] = &input;
    }
  }
  std::set<ValueId> changed;
  for (const auto& roots : aliasing.changed) {
    changed.insert(roots.begin(), roots.end());
  }
  std::map<ValueId, StageIndex> touched;  // by root of memory that is changed in place
  std::vector<StageIndex> stage_of_op;
  for (const Op& op : graph.ops) {
    StageIndex stage = 0;
    for_each_ref(op, [&](ValueId id) {
      stage = std::max({stage, of_value[id], touched[aliasing.root[id]]});
    });
    for_each_ref(op, [&](ValueId id) {
      const auto home = weights[id] == nullptr ? homes.end() : homes.find(weights[id]->target);
      if (home != homes.end()) {
        const auto at = home->second.lower_bound(stage);
        stage = at == home->second.end() ? stage : *at;
      }
    });
    for_each_ref(op, [&](ValueId id) {
      if (changed.contains(aliasing.root[id])) {
        touched[aliasing.root[id]] = stage;
      }
    });
    for_each_result(op, [&](ValueId id) { of_value[id] = stage; });
    stage_of_op.push_back(stage);
  }
  return stage_of_op;
}

Homes weight_homes(const std::vector<GraphStage>& parts) {
  Homes homes;
  for (StageIndex stage = 0; stage < parts.size(); ++stage) {
    for (const Input& input : parts[stage].graph.inputs) {
      if (input.is_weight()) {
        homes[input.target].insert(stage);
      }
    }
  }
  return homes;
}

// Gives every stage the weights its graphs use, under all their tied names; what
// nobody uses goes to the last, so that no name of the state dict is lost.
void distribute_weights(const Program& program, std::vector<Stage>& stages) {
  std::vector<std::set<std::string>> used(stages.size());
  std::set<std::string> anywhere;
  for (StageIndex i = 0; i < stages.size(); ++i) {
    const auto note = [&](const Graph& graph) {
      for (const Input& input : graph.inputs) {
        if (input.is_weight()) {
          used[i].insert(input.target);
          anywhere.insert(input.target);
        }
      }
    };
    note(stages[i].program.graph);
    if (stages[i].program.eval_graph) {
      note(*stages[i].program.eval_graph);
    }
  }
  for (const Weight& weight : program.weights) {
    const std::string& name = program.canonical(weight).name;
    for (StageIndex i = 0; i < stages.size(); ++i) {
      const bool orphan = !anywhere.contains(name) && i + 1 == stages.size();
      if (used[i].contains(name) || orphan) {
        stages[i].program.weights.push_back(weight);
      }
    }
  }
}

}  // namespace

std::vector<Stage> slice(const Program& program, const std::vector<std::size_t>& cuts) {
  check_cuts(program.graph, cuts);
  const std::size_t count = cuts.size() + 1;
  auto parts = cut_graph(program.graph, stages_from_cuts(program.graph, cuts), count);
  const auto homes = weight_homes(parts);
  std::vector<Stage> stages(count);
  for (StageIndex i = 0; i < count; ++i) {
    stages[i].program.graph = std::move(parts[i].graph);
    stages[i].sources = std::move(parts[i].sources);
  }
  if (program.eval_graph) {
    const Graph& graph = *program.eval_graph;
    const auto in_order = stages_in_order(graph, homes);
    auto eval_parts =
        cut_graph(graph, in_order ? *in_order : stages_from_weights(graph, homes), count);
    for (StageIndex i = 0; i < count; ++i) {
      stages[i].program.eval_graph = std::move(eval_parts[i].graph);
      stages[i].eval_sources = std::move(eval_parts[i].sources);
    }
  }
  stages.back().program.metadata = program.metadata;
  distribute_weights(program, stages);
  return stages;
}

}  // namespace ravnest::graph
