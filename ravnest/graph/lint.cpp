#include "ravnest/graph/lint.h"

#include <unordered_set>

#include "ravnest/base/error.h"
#include "ravnest/graph/operators.h"

namespace ravnest::graph {

namespace {

// More than any machine this is for can hold; stands between a lying shape and
// the allocator.
constexpr std::int64_t kMaxTensorBytes = std::int64_t{1} << 39;

// Checks one graph of a Program, in the order in which it would run.
class Linter {
 public:
  Linter(const Program& program, const Graph& graph, std::string place)
      : program_(program),
        graph_(graph),
        place_(std::move(place)),
        hints_(graph.hints()),
        defined_(graph.values.size(), false) {}

  void run() {
    check_values();
    for (const Input& input : graph_.inputs) {
      check_input(input);
    }
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const std::string& source = graph_.ops[i].source;
      where_ = concat(", op ", i, " (", graph_.ops[i].target, ")",
                      source.empty() ? "" : " at " + source);
      check_op(graph_.ops[i]);
    }
    where_ = ", outputs";
    for (const Argument& output : graph_.outputs) {
      check_uses(output);
    }
  }

 private:
  template <typename... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw_invalid("[graph] '", place_, "'", where_, ": ", parts..., ".");
  }

  void check_values() {
    std::unordered_set<std::string_view> names;
    for (const Value& value : graph_.values) {
      if (value.name.empty() || !names.insert(value.name).second) {
        fail("value '", value.name, "' is named twice");
      }
      if (value.kind == ValueKind::kTensor && value.type.is_known()) {
        check_type(value);
      }
    }
  }

  void check_type(const Value& value) const {
    for (const Expr& size : value.type.sizes) {
      if (size.is_constant() && size.constant() < 0) {
        fail("value '", value.name, "' has the negative size ", size.constant());
      }
    }
    bool known = true;
    for (const Expr& size : value.type.sizes) {
      known = known && size.evaluate(hints_).has_value();
    }
    const auto bytes = nbytes(value.type, hints_);
    if (known && (!bytes || *bytes > kMaxTensorBytes)) {
      fail("value '", value.name, "' would need more than ", kMaxTensorBytes >> 30,
           " GiB of memory");
    }
  }

  void define(ValueId id) {
    if (id >= defined_.size()) {
      fail("a value without a name is defined");
    }
    if (defined_[id]) {
      fail("value '", graph_.values[id].name, "' is defined twice");
    }
    defined_[id] = true;
  }

  void check_uses(const Argument& argument) const {
    for_each_ref(argument, [this](ValueId id) {
      if (id >= defined_.size()) {
        fail("a value without a name is used");
      }
      if (!defined_[id]) {
        fail("value '", graph_.values[id].name, "' is used before it is defined");
      }
    });
  }

  void check_input(const Input& input) {
    if (input.kind == InputKind::kLiteral) {
      return;
    }
    where_ = ", inputs";
    define(input.value);
    if (!input.is_weight()) {
      return;
    }
    const Value& value = graph_.values[input.value];
    const Weight* weight = program_.find_weight(input.target);
    if (weight == nullptr) {
      fail("weight '", input.target, "' is used but not stored");
    }
    if (value.kind != ValueKind::kTensor ||
        (value.type.is_known() &&
         (value.type.dtype != weight->type.dtype || value.type.sizes != weight->type.sizes))) {
      fail("weight '", input.target, "' has another shape or dtype than the graph says");
    }
  }

  void check_op(const Op& op) {
    const auto traits = find_operator(op.target);
    if (!traits) {
      fail("this operator is not on the list of pure tensor operators that a Program may use");
    }
    for (const NamedArgument& argument : op.arguments) {
      check_uses(argument.value);
      if (!traits->aliases) {
        check_factory_size(argument);
      }
    }
    if (op.results.size() > 64) {
      fail("it has ", op.results.size(), " results");
    }
    for_each_result(op, [&](ValueId id) {
      define(id);
      const bool tensor = graph_.values[id].kind == ValueKind::kTensor;
      if (tensor == traits->is_size) {
        fail("value '", graph_.values[id].name, "' is of the wrong kind");
      }
    });
  }

  // zeros(size=[1 << 40]) would allocate whatever the value's own type claims.
  void check_factory_size(const NamedArgument& argument) const {
    const List* list = argument.value.find_list();
    if (list == nullptr || list->kind != ListKind::kInts || argument.name != "size") {
      return;
    }
    std::int64_t count = 1;
    for (const Argument& item : list->items) {
      const auto* extent = std::get_if<std::int64_t>(&item.value);
      if (extent != nullptr && *extent > 0 &&
          (__builtin_mul_overflow(count, *extent, &count) || count > kMaxTensorBytes)) {
        fail("it asks for more than ", kMaxTensorBytes >> 30, " GiB of memory");
      }
    }
  }

  const Program& program_;
  const Graph& graph_;
  std::string place_;
  std::string where_;
  SymbolValues hints_;
  std::vector<bool> defined_;
};

}  // namespace

void lint(const Program& program, const std::string& label) {
  std::unordered_set<std::string_view> names;
  for (const Weight& weight : program.weights) {
    if (!names.insert(weight.name).second) {
      throw_invalid("[graph] '", label, "': weight '", weight.name, "' is there twice.");
    }
  }
  Linter(program, program.graph, label).run();
  if (program.eval_graph) {
    Linter(program, *program.eval_graph, label + " (eval)").run();
  }
}

}  // namespace ravnest::graph
