#include "ravnest/graph/mode.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace ravnest::graph {

namespace {

// An argument that is true (or positive) in training and off in evaluation.
struct ModeFlag {
  std::string_view prefix;    // operators whose target starts so
  std::string_view argument;  // the flag
  bool needs_statistics;      // without running statistics it stays on
};

constexpr std::array kModeFlags{
    ModeFlag{"aten.dropout.", "train", false},
    ModeFlag{"aten.dropout_.", "train", false},
    ModeFlag{"aten.alpha_dropout.", "train", false},
    ModeFlag{"aten.alpha_dropout_.", "train", false},
    ModeFlag{"aten.feature_dropout.", "train", false},
    ModeFlag{"aten.feature_dropout_.", "train", false},
    ModeFlag{"aten.feature_alpha_dropout.", "train", false},
    ModeFlag{"aten.feature_alpha_dropout_.", "train", false},
    ModeFlag{"aten.native_dropout.", "train", false},
    ModeFlag{"aten.batch_norm.", "training", true},
    ModeFlag{"aten._native_batch_norm_legit.", "training", true},
    ModeFlag{"aten.native_batch_norm.", "training", true},
    ModeFlag{"aten.instance_norm.", "use_input_stats", true},
    ModeFlag{"aten.rrelu.", "training", false},
    ModeFlag{"aten.rrelu_.", "training", false},
    ModeFlag{"aten.lstm.", "train", false},
    ModeFlag{"aten.gru.", "train", false},
    ModeFlag{"aten.rnn_tanh.", "train", false},
    ModeFlag{"aten.rnn_relu.", "train", false},
    ModeFlag{"aten.scaled_dot_product_attention.", "dropout_p", false},
};

const ModeFlag* find_flag(const std::string& target) {
  const auto* found = std::ranges::find_if(
      kModeFlags, [&target](const ModeFlag& flag) { return target.starts_with(flag.prefix); });
  return found == kModeFlags.end() ? nullptr : found;
}

bool lacks_statistics(const Op& op) {
  const Argument* mean = op.find_argument("running_mean");
  return mean == nullptr || mean->is_none();
}

void switch_off(Op& op) {
  const ModeFlag* flag = find_flag(op.target);
  if (flag == nullptr || (flag->needs_statistics && lacks_statistics(op))) {
    return;
  }
  for (NamedArgument& argument : op.arguments) {
    if (argument.name != flag->argument) {
      continue;
    }
    if (std::holds_alternative<bool>(argument.value.value)) {
      argument.value.value = false;
    } else if (std::holds_alternative<double>(argument.value.value)) {
      argument.value.value = 0.0;
    }
  }
}

// Normalisation layers count their batches, in training only.
bool counts_batches(const Graph& graph, const Op& op) {
  if (!op.target.starts_with("aten.add_.") && !op.target.starts_with("aten.copy_.")) {
    return false;
  }
  const Argument* self = op.find_argument("self");
  const Ref* ref = self == nullptr ? nullptr : self->find_ref();
  return ref != nullptr && std::ranges::any_of(graph.inputs, [ref](const Input& input) {
           return input.kind == InputKind::kBuffer && input.value == ref->id &&
                  input.target.ends_with("num_batches_tracked");
         });
}

bool uses_any_result(const Graph& graph, const Op& op) {
  std::vector<ValueId> results;
  for_each_result(op, [&](ValueId id) { results.push_back(id); });
  bool used = false;
  const auto look = [&](ValueId id) { used = used || std::ranges::count(results, id) > 0; };
  for (const Op& other : graph.ops) {
    for_each_ref(other, look);
  }
  for (const Argument& output : graph.outputs) {
    for_each_ref(output, look);
  }
  return used;
}

bool is_off(const Op& op) {
  const Argument* train = op.find_argument("train");
  return op.target.find("dropout") != std::string::npos && op.results.size() == 1 &&
         train != nullptr && train->value == Argument{false}.value;
}

bool is_plain_contiguous(const Op& op) {
  return op.target == "aten.contiguous.default" && op.arguments.size() == 1;
}

// Compares two graphs op by op, learning which value of one is which of the other.
class Comparison {
 public:
  Comparison(const Graph& a, const Graph& b) : a_(a), b_(b) {}

  bool same() {
    if (a_.inputs.size() != b_.inputs.size() || a_.outputs.size() != b_.outputs.size() ||
        a_.in_spec != b_.in_spec || a_.out_spec != b_.out_spec) {
      return false;
    }
    for (std::size_t i = 0; i < a_.inputs.size(); ++i) {
      const Input& left = a_.inputs[i];
      const Input& right = b_.inputs[i];
      if (left.kind != right.kind || left.target != right.target ||
          !(left.literal == right.literal)) {
        return false;
      }
      if (left.kind != InputKind::kLiteral) {
        pair_[left.value] = right.value;
      }
    }
    return same_ops() &&
           std::ranges::equal(a_.outputs, b_.outputs,
                              [this](const auto& l, const auto& r) { return same_argument(l, r); });
  }

 private:
  bool same_ops() {
    std::size_t i = 0;
    std::size_t j = 0;
    while (true) {
      i = skip_idle(a_, i, left_alias_, true);
      j = skip_idle(b_, j, right_alias_, false);
      if (i == a_.ops.size() || j == b_.ops.size()) {
        return i == a_.ops.size() && j == b_.ops.size();
      }
      if (!same_op(a_.ops[i++], b_.ops[j++])) {
        return false;
      }
    }
  }

  // Dropout that is off passes its input on, and `contiguous` at most copies it.
  static std::size_t skip_idle(const Graph& graph, std::size_t at,
                               std::unordered_map<ValueId, ValueId>& alias, bool skip_copies) {
    while (at < graph.ops.size() &&
           (is_off(graph.ops[at]) || (skip_copies && is_plain_contiguous(graph.ops[at])))) {
      const Op& op = graph.ops[at];
      const Argument* input = op.find_argument("input");
      input = input == nullptr ? op.find_argument("self") : input;
      const Ref* ref = input == nullptr ? nullptr : input->find_ref();
      if (ref == nullptr || op.results[0].values.size() != 1) {
        break;
      }
      const auto known = alias.find(ref->id);
      alias[op.results[0].values[0]] = known == alias.end() ? ref->id : known->second;
      ++at;
    }
    return at;
  }

  bool same_op(const Op& left, const Op& right) {
    if (left.target != right.target || left.results.size() != right.results.size()) {
      return false;
    }
    const auto is_idle = [](const NamedArgument& argument) {
      return argument.name == "dropout_p" && argument.value.value == Argument{0.0}.value;
    };
    std::vector<const NamedArgument*> from_left;
    std::vector<const NamedArgument*> from_right;
    for (const NamedArgument& argument : left.arguments) {
      if (!is_idle(argument)) {
        from_left.push_back(&argument);
      }
    }
    for (const NamedArgument& argument : right.arguments) {
      if (!is_idle(argument)) {
        from_right.push_back(&argument);
      }
    }
    const bool same =
        std::ranges::equal(from_left, from_right, [this](const auto* l, const auto* r) {
          return l->name == r->name && same_argument(l->value, r->value);
        });
    return same && pair_results(left, right);
  }

  bool pair_results(const Op& left, const Op& right) {
    for (std::size_t i = 0; i < left.results.size(); ++i) {
      const Result& l = left.results[i];
      const Result& r = right.results[i];
      if (l.kind != r.kind || l.values.size() != r.values.size()) {
        return false;
      }
      for (std::size_t k = 0; k < l.values.size(); ++k) {
        pair_[l.values[k]] = r.values[k];
      }
    }
    return true;
  }

  static ValueId resolve(ValueId id, const std::unordered_map<ValueId, ValueId>& alias) {
    const auto found = alias.find(id);
    return found == alias.end() ? id : found->second;
  }

  bool same_argument(const Argument& left, const Argument& right) const {
    const Ref* l = left.find_ref();
    const Ref* r = right.find_ref();
    if (l != nullptr && r != nullptr) {
      const auto found = pair_.find(resolve(l->id, left_alias_));
      return found != pair_.end() && found->second == resolve(r->id, right_alias_);
    }
    const List* left_list = left.find_list();
    const List* right_list = right.find_list();
    if (left_list != nullptr && right_list != nullptr) {
      return left_list->kind == right_list->kind &&
             std::ranges::equal(
                 left_list->items, right_list->items,
                 [this](const Argument& x, const Argument& y) { return same_argument(x, y); });
    }
    return left == right;
  }

  const Graph& a_;
  const Graph& b_;
  std::unordered_map<ValueId, ValueId> pair_;
  std::unordered_map<ValueId, ValueId> left_alias_;
  std::unordered_map<ValueId, ValueId> right_alias_;
};

}  // namespace

Graph eval_form(const Graph& graph) {
  Graph form = graph;
  std::erase_if(form.ops, [&graph](const Op& op) {
    return counts_batches(graph, op) && !uses_any_result(graph, op);
  });
  for (Op& op : form.ops) {
    switch_off(op);
  }
  return form;
}

bool computes_same(const Graph& a, const Graph& b) { return Comparison(a, b).same(); }

Graph graph_for_eval(const Program& program) {
  return program.eval_graph ? *program.eval_graph : eval_form(program.graph);
}

void drop_redundant_eval(Program& program) {
  if (program.eval_graph && computes_same(eval_form(program.graph), *program.eval_graph)) {
    program.eval_graph.reset();
  }
}

}  // namespace ravnest::graph
