#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/graph/dtype.h"
#include "ravnest/graph/expr.h"

namespace ravnest::graph {

// The Program: a model as a flat list of ATen calls over named values. Plain
// data, owned by whoever holds it, with no threads and no libtorch; `lint` says
// whether it is well formed.

using ValueId = std::uint32_t;

struct Device {
  std::string type = "cpu";
  std::int64_t index = -1;  // -1: not given

  bool operator==(const Device&) const = default;
};

// What is known of a tensor before it exists. dtype kUnknown means that nothing
// is known (a model captured without example inputs).
struct TensorType {
  DType dtype = DType::kUnknown;
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  Expr storage_offset = 0;
  bool requires_grad = false;
  Device device;

  bool is_known() const { return dtype != DType::kUnknown; }
  bool operator==(const TensorType&) const = default;
};

enum class ValueKind : std::uint8_t { kTensor, kInt, kFloat, kBool };

struct Value {
  std::string name;
  ValueKind kind = ValueKind::kTensor;
  TensorType type;  // of a tensor
  Expr expr;        // of an int that depends on the batch, where known

  bool operator==(const Value&) const = default;
};

struct None {
  bool operator==(const None&) const = default;
};

// A use of a value.
struct Ref {
  ValueId id = 0;
  bool operator==(const Ref&) const = default;
};

struct Argument;

// What a list holds; the only thing an empty list can tell.
enum class ListKind : std::uint8_t {
  kTensors,
  kOptionalTensors,
  kInts,
  kFloats,
  kBools,
  kStrings,
  kLists,
};

struct List {
  ListKind kind = ListKind::kInts;
  std::vector<Argument> items;

  bool operator==(const List&) const = default;
};

// An argument of an op, or an output of a graph: a value, a constant, or a list.
struct Argument {
  std::variant<None, Ref, bool, std::int64_t, double, std::complex<double>, std::string, DType,
               MemoryFormat, Device, List>
      value;

  const Ref* find_ref() const { return std::get_if<Ref>(&value); }
  const List* find_list() const { return std::get_if<List>(&value); }
  bool is_none() const { return std::holds_alternative<None>(value); }
  bool operator==(const Argument&) const = default;
};

struct NamedArgument {
  std::string name;
  Argument value;
  bool positional = true;

  bool operator==(const NamedArgument&) const = default;
};

// One result of an op: a value, a list of values (split), or one nobody uses.
struct Result {
  enum class Kind : std::uint8_t { kValue, kList, kNone };
  Kind kind = Kind::kValue;
  std::vector<ValueId> values;

  bool operator==(const Result&) const = default;
};

struct Op {
  std::string target;  // "aten.conv2d.default", or a size computation: "_operator.mul"
  std::vector<NamedArgument> arguments;
  std::vector<Result> results;
  std::string module;  // path of the module that made it: "layer1.0.conv"
  std::string source;  // where in the user's code: "models.py:26"

  const Argument* find_argument(std::string_view name) const;
  bool operator==(const Op&) const = default;
};

enum class InputKind : std::uint8_t {
  kParameter,
  kBuffer,
  kConstant,  // a tensor written into the code
  kUser,      // a tensor or size the caller passes
  kLiteral,   // something else the caller passes, fixed when the model was captured
};

struct Input {
  InputKind kind = InputKind::kUser;
  ValueId value = 0;   // unused for kLiteral
  std::string target;  // name of the weight, or of the literal
  Argument literal;    // of kLiteral

  bool is_weight() const {
    return kind == InputKind::kParameter || kind == InputKind::kBuffer ||
           kind == InputKind::kConstant;
  }
  bool operator==(const Input&) const = default;
};

struct Symbol {
  std::int64_t hint = 0;  // its value in the example the model was captured with
  std::optional<std::int64_t> min;
  std::optional<std::int64_t> max;

  bool operator==(const Symbol&) const = default;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Input> inputs;
  std::vector<Op> ops;
  std::vector<Argument> outputs;
  std::map<std::string, Symbol> symbols;
  // The caller's own structure of inputs and outputs, as torch's tree specs;
  // empty: a flat tuple.
  std::string in_spec;
  std::string out_spec;

  ValueId add_value(Value value);
  const Value& value(ValueId id) const { return values[id]; }
  std::optional<ValueId> find_value(std::string_view name) const;
  // The inputs that a caller passes (kUser and kLiteral), in order.
  std::vector<const Input*> user_inputs() const;
  SymbolValues hints() const;
  bool operator==(const Graph&) const = default;
};

// A parameter, buffer or constant. Weights with one `storage_key` share bytes (it
// is the name of the first of them); where they also share type they are tied:
// one tensor with several names, of which graphs use the first.
struct Weight {
  std::string name;
  InputKind kind = InputKind::kParameter;
  bool persistent = true;  // false: a buffer that is not part of the state dict
  TensorType type;
  std::string storage_key;
  Bytes storage;  // empty where the data is elsewhere (text form, remote)

  bool in_state_dict() const { return kind != InputKind::kConstant && persistent; }
};

struct Program {
  Graph graph;  // as in training; where only flags differ, `eval_form` gives the other
  // Only where the eval forward differs in structure. It shares the weights.
  std::optional<Graph> eval_graph;
  std::vector<Weight> weights;                  // in the order of the state dict
  std::map<std::string, std::string> metadata;  // "loss": "true" when output 0 is the loss

  const Weight* find_weight(std::string_view name) const;
  // The first of the weights tied to this one: the one whose name graphs use.
  const Weight& canonical(const Weight& weight) const;
};

// Puts names of shared weights in order after weights were added, renamed or
// moved: keys are the name of the first with these bytes, and graphs use the
// first of tied names. Every weight input must name a weight.
void settle_weight_names(Program& program);

// Calls `visit(ValueId)` for every value an argument uses.
template <typename Visit>
void for_each_ref(const Argument& argument, Visit&& visit) {
  if (const Ref* ref = argument.find_ref()) {
    visit(ref->id);
  } else if (const List* list = argument.find_list()) {
    for (const Argument& item : list->items) {
      for_each_ref(item, visit);
    }
  }
}

template <typename Visit>
void for_each_ref(const Op& op, Visit&& visit) {
  for (const NamedArgument& argument : op.arguments) {
    for_each_ref(argument.value, visit);
  }
}

template <typename Visit>
void for_each_result(const Op& op, Visit&& visit) {
  for (const Result& result : op.results) {
    for (const ValueId id : result.values) {
      visit(id);
    }
  }
}

// Bytes of a tensor of this type with these symbols; nothing if it depends on
// something unknown or does not fit into 63 bits.
std::optional<std::int64_t> nbytes(const TensorType& type, const SymbolValues& symbols);
std::optional<std::int64_t> numel(const TensorType& type, const SymbolValues& symbols);

}  // namespace ravnest::graph
