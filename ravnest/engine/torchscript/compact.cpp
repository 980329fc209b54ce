#include "ravnest/engine/torchscript/compact.h"

#include <map>
#include <unordered_set>

#include "ravnest/base/error.h"

namespace ravnest::engine {

namespace {

using graph::Graph;
using graph::ValueId;

// Which ops have to run, and which values are used then.
struct Needs {
  std::vector<bool> ops;
  std::vector<bool> values;
};

Needs find_needs(const Graph& graph, const std::vector<bool>& has_effect) {
  Needs needs{.ops = std::vector<bool>(graph.ops.size(), false),
              .values = std::vector<bool>(graph.values.size(), false)};
  const auto use = [&needs](ValueId id) { needs.values[id] = true; };
  for (const graph::Argument& output : graph.outputs) {
    graph::for_each_ref(output, use);
  }
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    bool needed = has_effect[i];
    graph::for_each_result(graph.ops[i], [&](ValueId id) { needed = needed || needs.values[id]; });
    needs.ops[i] = needed;
    if (needed) {
      graph::for_each_ref(graph.ops[i], use);
    }
  }
  return needs;
}

std::string identifier(const std::string& text) {
  std::string made = text;
  for (char& letter : made) {
    const bool fits = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                      (letter >= '0' && letter <= '9') || letter == '_';
    letter = fits ? letter : '_';
  }
  return made.empty() || (made[0] >= '0' && made[0] <= '9') ? "_" + made : made;
}

std::string wanted_name(const graph::Input& input, const graph::Value& value) {
  switch (input.kind) {
    case graph::InputKind::kParameter:
      return "p_" + input.target;
    case graph::InputKind::kBuffer:
      return "b_" + input.target;
    case graph::InputKind::kConstant:
      return "c_" + input.target;
    default:
      return value.name;
  }
}

// Moves the values that are still defined into a new numbering.
class Renumbering {
 public:
  explicit Renumbering(Graph& graph) : graph_(graph), new_ids_(graph.values.size(), 0) {}

  void define(ValueId& id, const std::string& wanted) {
    graph::Value value = std::move(graph_.values[id]);
    value.name = unused(identifier(wanted));
    new_ids_[id] = static_cast<ValueId>(values_.size());
    id = new_ids_[id];
    values_.push_back(std::move(value));
  }

  void follow(graph::Argument& argument) const {
    if (auto* ref = std::get_if<graph::Ref>(&argument.value)) {
      ref->id = new_ids_[ref->id];
    } else if (auto* list = std::get_if<graph::List>(&argument.value)) {
      for (graph::Argument& item : list->items) {
        follow(item);
      }
    }
  }

  std::vector<graph::Value> take() { return std::move(values_); }

 private:
  std::string unused(const std::string& wanted) {
    std::string name = wanted;
    for (int& count = counts_[wanted]; !names_.insert(name).second;) {
      name = concat(wanted, "_", ++count);
    }
    return name;
  }

  Graph& graph_;
  std::vector<ValueId> new_ids_;
  std::vector<graph::Value> values_;
  std::unordered_set<std::string> names_;
  std::map<std::string, int> counts_;
};

}  // namespace

Graph compact(Graph graph, const std::vector<bool>& has_effect) {
  const Needs needs = find_needs(graph, has_effect);
  std::erase_if(graph.inputs, [&needs](const graph::Input& input) {
    return input.kind == graph::InputKind::kConstant && !needs.values[input.value];
  });
  Renumbering numbers(graph);
  for (graph::Input& input : graph.inputs) {
    if (input.kind != graph::InputKind::kLiteral) {
      numbers.define(input.value, wanted_name(input, graph.values[input.value]));
    }
  }
  std::vector<graph::Op> ops;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (!needs.ops[i]) {
      continue;
    }
    graph::Op& op = graph.ops[i];
    for (graph::NamedArgument& argument : op.arguments) {
      numbers.follow(argument.value);
    }
    for (graph::Result& result : op.results) {
      for (ValueId& id : result.values) {
        numbers.define(id, std::string(graph.values[id].name));
      }
    }
    ops.push_back(std::move(op));
  }
  for (graph::Argument& output : graph.outputs) {
    numbers.follow(output);
  }
  graph.ops = std::move(ops);
  graph.values = numbers.take();
  return graph;
}

}  // namespace ravnest::engine
