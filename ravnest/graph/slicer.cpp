#include "ravnest/graph/slicer.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "ravnest/base/error.h"
#include "ravnest/graph/aliasing.h"
#include "ravnest/graph/pt2/pt2.h"

namespace ravnest::graph {

namespace {

// Builds the graphs of all stages.
//
// A value that crosses a cut travels as its *carrier*: mostly itself. Where
// memory it shares is changed in place on the far side, the receiving stage
// works on a copy, and where several values of that memory cross, their common
// root is sent and the views are made again from it.
class Slicer {
 public:
  Slicer(const Graph& graph, std::vector<StageIndex> stage_of_op, std::size_t stages)
      : graph_(graph),
        aliasing_(graph),
        stage_of_op_(std::move(stage_of_op)),
        stages_(stages),
        input_of_(graph.values.size(), nullptr),
        last_use_(graph.values.size(), 0),
        required_(stages),
        seen_(stages) {
    for (const Input& input : graph.inputs) {
      if (input.kind != InputKind::kLiteral) {
        input_of_[input.value] = &input;
      }
    }
  }

  std::vector<GraphStage> cut() {
    find_changes();
    find_crossings();
    find_routes();
    std::vector<GraphStage> parts;
    for (StageIndex stage = 0; stage < stages_; ++stage) {
      parts.push_back(build(stage));
    }
    return parts;
  }

 private:
  bool is_weight(ValueId id) const {
    return input_of_[id] != nullptr && input_of_[id]->is_weight();
  }
  bool is_user_input(ValueId id) const { return input_of_[id] != nullptr && !is_weight(id); }

  void find_changes() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      for (const ValueId root : aliasing_.changed[i]) {
        changed_in_[root].insert(stage_of_op_[i]);
      }
    }
  }

  bool changes(ValueId root, StageIndex stage) const {
    const auto found = changed_in_.find(root);
    return found != changed_in_.end() && found->second.contains(stage);
  }

  // The stage a value comes from. A model input that is changed in place comes,
  // for later stages, from the stage that changes it first.
  StageIndex home(ValueId id) const {
    if (aliasing_.definer[id]) {
      return stage_of_op_[*aliasing_.definer[id]];
    }
    const auto found = changed_in_.find(id);
    return found == changed_in_.end() ? 0 : *found->second.begin();
  }

  bool crosses_to(ValueId id, StageIndex stage) const {
    if (is_weight(id)) {
      return false;
    }
    if (is_user_input(id)) {
      return changed_in_.contains(id) && home(id) < stage;
    }
    return home(id) < stage;
  }

  // Whether memory of this group is changed after some of its values crossed a cut.
  bool is_hot(ValueId root) const {
    const auto changes = changed_in_.find(root);
    const auto values = crossing_.find(root);
    return changes != changed_in_.end() && values != crossing_.end() &&
           std::ranges::any_of(values->second, [&](ValueId value) {
             return home(value) < *changes->second.rbegin();
           });
  }

  template <typename Visit>
  void for_each_use(Visit&& visit) const {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      for_each_ref(graph_.ops[i], [&](ValueId id) { visit(id, stage_of_op_[i]); });
    }
    for (const Argument& output : graph_.outputs) {
      for_each_ref(output, [&](ValueId id) { visit(id, stages_ - 1); });
    }
  }

  void find_crossings() {
    for_each_use([this](ValueId id, StageIndex stage) {
      const ValueId value = aliasing_.same[id];
      last_use_[value] = std::max(last_use_[value], stage);
      if (crosses_to(value, stage)) {
        crossing_[aliasing_.root[value]].insert(value);
      }
    });
    for_each_use([this](ValueId id, StageIndex stage) { require(aliasing_.same[id], stage); });
  }

  // Notes what a stage must be sent so that it can use a value.
  void require(ValueId first, StageIndex stage) {
    std::vector<ValueId> waiting{first};
    while (!waiting.empty()) {
      const ValueId value = waiting.back();
      waiting.pop_back();
      if (!crosses_to(value, stage) || !seen_[stage].insert(value).second) {
        continue;
      }
      const ValueId carrier = carrier_of(value);
      if (carrier != value) {
        for (const std::size_t op : chain_to(value, carrier)) {
          for_each_ref(graph_.ops[op], [&](ValueId id) {
            const ValueId used = aliasing_.same[id];
            if (aliasing_.root[used] != aliasing_.root[value]) {
              waiting.push_back(used);
            }
          });
        }
      }
      if (crosses_to(carrier, stage)) {
        required_[stage].insert(carrier);
      }
    }
  }

  ValueId carrier_of(ValueId value) const {
    const ValueId root = aliasing_.root[value];
    if (!is_hot(root)) {
      return value;
    }
    // A model input reaches later stages without crossing, and brings its memory.
    const bool root_is_there =
        is_weight(root) || (is_user_input(root) && last_use_[root] > home(value));
    return crossing_.at(root).size() == 1 && !root_is_there ? value : root;
  }

  // The ops that make `value` from `carrier`, first to last.
  std::vector<std::size_t> chain_to(ValueId value, ValueId carrier) const {
    std::vector<std::size_t> chain;
    for (ValueId at = value; at != carrier;) {
      RAVNEST_CHECK(aliasing_.definer[at].has_value());
      const std::size_t op = *aliasing_.definer[at];
      if (!always_shares(graph_.ops[op])) {
        throw_invalid("[graph] cannot cut here: '", graph_.value(value).name,
                      "' may or may not share memory with '", graph_.value(carrier).name,
                      "', which is changed in place after the cut (", graph_.ops[op].target,
                      "). Cut elsewhere, or avoid the in-place operation.");
      }
      chain.push_back(op);
      at = aliasing_.same[*first_tensor(graph_, graph_.ops[op])];
    }
    std::ranges::reverse(chain);
    return chain;
  }

  void find_routes() {
    routed_.assign(stages_ + 1, {});
    std::map<ValueId, StageIndex> last;
    for (StageIndex stage = 0; stage < stages_; ++stage) {
      for (const ValueId carrier : required_[stage]) {
        last[carrier] = stage;
      }
    }
    for (const auto& [carrier, stage] : last) {
      for (StageIndex at = home(carrier) + 1; at <= stage; ++at) {
        routed_[at].push_back(carrier);
      }
    }
  }

  // The graph of one stage while it is built.
  struct Build {
    StageIndex stage;
    GraphStage part;
    std::unordered_map<ValueId, ValueId> local;  // value of the whole → of the stage
    std::set<std::string> names;
  };

  ValueId add_value(Build& build, ValueId id, const char* suffix = "") const {
    Value value = graph_.value(id);
    value.name += suffix;
    while (!build.names.insert(value.name).second) {
      value.name += "_";
    }
    return build.part.graph.add_value(std::move(value));
  }

  GraphStage build(StageIndex stage) const {
    Build build{.stage = stage, .part = {}, .local = {}, .names = {}};
    add_inputs(build);
    copy_changed_inputs(build);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (stage_of_op_[i] == stage) {
        remake_views(build, graph_.ops[i]);
        add_op(build, graph_.ops[i]);
      }
    }
    add_outputs(build);
    add_symbols(build.part.graph);
    build.part.graph.in_spec = flat_in_spec(build.part.sources.size());
    build.part.graph.out_spec =
        stage + 1 < stages_ ? flat_out_spec(build.part.graph.outputs.size()) : graph_.out_spec;
    return std::move(build.part);
  }

  void add_inputs(Build& build) const {
    const std::set<ValueId> used = inputs_used(build.stage);
    std::size_t user_index = 0;
    std::vector<std::pair<Input, std::size_t>> direct;
    for (const Input& input : graph_.inputs) {
      const bool wanted = input.kind != InputKind::kLiteral && used.contains(input.value);
      if (wanted && input.is_weight()) {
        add_input(build, input);
      } else if (wanted) {
        direct.emplace_back(input, user_index);
      }
      user_index += input.is_weight() ? 0 : 1;
    }
    for (const auto& [input, index] : direct) {
      add_input(build, input);
      build.part.sources.push_back({.kind = Source::Kind::kModel, .index = index});
    }
    for (std::size_t i = 0; i < routed_[build.stage].size(); ++i) {
      add_input(build, {.kind = InputKind::kUser,
                        .value = routed_[build.stage][i],
                        .target = {},
                        .literal = {}});
      build.part.sources.push_back({.kind = Source::Kind::kPrevious, .index = i});
    }
  }

  void add_input(Build& build, Input input) const {
    const ValueId id = add_value(build, input.value);
    build.local[input.value] = id;
    input.value = id;
    build.part.graph.inputs.push_back(std::move(input));
  }

  // Model inputs and weights that a stage needs: those its ops name, those its
  // views are made from, and those it has to pass on.
  std::set<ValueId> inputs_used(StageIndex stage) const {
    std::set<ValueId> used;
    const auto note = [&](ValueId id) {
      const ValueId value = aliasing_.same[id];
      if (input_of_[value] != nullptr && !crosses_to(value, stage)) {
        used.insert(value);
      }
    };
    const auto note_chain = [&](ValueId id) {
      const ValueId value = aliasing_.same[id];
      note(value);
      if (!crosses_to(value, stage)) {
        return;
      }
      const ValueId carrier = carrier_of(value);
      note(carrier);
      for (const std::size_t op : chain_to(value, carrier)) {
        for_each_ref(graph_.ops[op], note);
      }
    };
    for_each_use([&](ValueId id, StageIndex at) {
      if (at == stage) {
        note_chain(id);
      }
    });
    for (const ValueId carrier : routed_[stage + 1]) {
      note(carrier);
    }
    return used;
  }

  void copy_changed_inputs(Build& build) const {
    for (const ValueId carrier : routed_[build.stage]) {
      if (!changes(aliasing_.root[carrier], build.stage)) {
        continue;
      }
      const ValueId copy = add_value(build, carrier, "_copy");
      build.part.graph.ops.push_back(
          {.target = "aten.clone.default",
           .arguments = {{.name = "self", .value = {Ref{build.local.at(carrier)}}}},
           .results = {{.values = {copy}}},
           .module = {},
           .source = {}});
      build.local[carrier] = copy;
    }
  }

  // Makes the views an op uses that were not sent themselves.
  void remake_views(Build& build, const Op& op) const {
    for_each_ref(op, [&](ValueId id) { remake_view(build, aliasing_.same[id]); });
  }

  void remake_view(Build& build, ValueId value) const {
    if (build.local.contains(value) || !crosses_to(value, build.stage)) {
      return;
    }
    for (const std::size_t op : chain_to(value, carrier_of(value))) {
      bool made = true;
      for_each_result(graph_.ops[op], [&](ValueId id) { made = made && build.local.contains(id); });
      if (!made) {
        add_op(build, graph_.ops[op]);
      }
    }
  }

  ValueId local(const Build& build, ValueId id) const {
    const auto found = build.local.find(id);
    if (found != build.local.end()) {
      return found->second;
    }
    return build.local.at(aliasing_.same[id]);
  }

  Argument translate(const Build& build, const Argument& argument) const {
    if (const Ref* ref = argument.find_ref()) {
      return {Ref{local(build, ref->id)}};
    }
    const List* list = argument.find_list();
    if (list == nullptr) {
      return argument;
    }
    List items{.kind = list->kind, .items = {}};
    for (const Argument& item : list->items) {
      items.items.push_back(translate(build, item));
    }
    return {std::move(items)};
  }

  void add_op(Build& build, const Op& op) const {
    Op added = op;
    for (NamedArgument& argument : added.arguments) {
      argument.value = translate(build, argument.value);
    }
    for (Result& result : added.results) {
      for (ValueId& id : result.values) {
        const ValueId original = id;
        id = add_value(build, original);
        build.local[original] = id;
      }
    }
    build.part.graph.ops.push_back(std::move(added));
  }

  void add_outputs(Build& build) const {
    auto& outputs = build.part.graph.outputs;
    if (build.stage + 1 < stages_) {
      for (const ValueId carrier : routed_[build.stage + 1]) {
        outputs.emplace_back().value = Ref{local(build, carrier)};
      }
      return;
    }
    for (const Argument& output : graph_.outputs) {
      for_each_ref(output, [&](ValueId id) { remake_view(build, aliasing_.same[id]); });
      outputs.push_back(translate(build, output));
    }
  }

  void add_symbols(Graph& part) const {
    std::set<std::string> names;
    for (const Value& value : part.values) {
      value.expr.collect_symbols(names);
      value.type.storage_offset.collect_symbols(names);
      for (const Expr& size : value.type.sizes) {
        size.collect_symbols(names);
      }
      for (const Expr& stride : value.type.strides) {
        stride.collect_symbols(names);
      }
    }
    for (const std::string& name : names) {
      const auto found = graph_.symbols.find(name);
      if (found != graph_.symbols.end()) {
        part.symbols.insert(*found);
      }
    }
  }

  const Graph& graph_;
  const Aliasing aliasing_;
  const std::vector<StageIndex> stage_of_op_;
  const std::size_t stages_;
  std::vector<const Input*> input_of_;                  // by value
  std::map<ValueId, std::set<StageIndex>> changed_in_;  // by root
  std::map<ValueId, std::set<ValueId>> crossing_;       // by root: values that cross a cut
  std::vector<StageIndex> last_use_;                    // by value
  std::vector<std::set<ValueId>> required_;             // by stage: carriers it must be sent
  std::vector<std::set<ValueId>> seen_;                 // by stage: values already looked at
  std::vector<std::vector<ValueId>> routed_;            // by stage: carriers it is sent
};

}  // namespace

std::vector<GraphStage> cut_graph(const Graph& graph, std::vector<StageIndex> stage_of_op,
                                  std::size_t stages) {
  return Slicer(graph, std::move(stage_of_op), stages).cut();
}

}  // namespace ravnest::graph
