#include <array>
#include <charconv>
#include <cmath>

#include "ravnest/base/error.h"
#include "ravnest/graph/text/quote.h"
#include "ravnest/graph/text/rules.h"
#include "ravnest/graph/text/text.h"

namespace ravnest::graph {

namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

std::string bare_or_quoted(std::string_view name) {
  return is_identifier(name) ? std::string(name) : quote(name);
}

// Always with a point, an exponent or a name, so that it cannot be an int.
std::string float_text(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".en") == std::string::npos) {
    text += ".0";
  }
  return text;
}

std::string device_text(const Device& device) {
  const std::string type = "@" + bare_or_quoted(device.type);
  return device.index == -1 ? type : concat(type, ":", device.index);
}

template <typename Items, typename Write>
std::string joined(const Items& items, Write&& write) {
  std::string out;
  for (const auto& item : items) {
    out += out.empty() ? "" : ", ";
    out += write(item);
  }
  return out;
}

std::string joined(const std::vector<Expr>& sizes) {
  return joined(sizes, [](const Expr& size) { return size.to_string(); });
}

std::string tensor_text(const TensorType& type, bool requires_grad_default) {
  const bool unknown = !type.is_known() && type.sizes.empty();
  std::string out = unknown ? "?" : concat(name_of(type.dtype), "[", joined(type.sizes), "]");
  if (contiguous_strides(type.sizes) != type.strides) {
    out += concat(" strides(", joined(type.strides), ")");
  }
  if (type.storage_offset != Expr(0)) {
    out += concat(" offset(", type.storage_offset.to_string(), ")");
  }
  if (type.requires_grad != requires_grad_default) {
    out += type.requires_grad ? " requires_grad" : " no_grad";
  }
  if (type.device != Device()) {
    out += " " + device_text(type.device);
  }
  return out;
}

std::string value_text(const Value& value, bool requires_grad_default) {
  if (value.kind == ValueKind::kTensor) {
    return tensor_text(value.type, requires_grad_default);
  }
  const std::string kind = value.kind == ValueKind::kInt     ? "int"
                           : value.kind == ValueKind::kFloat ? "float"
                                                             : "bool";
  return value.expr == Expr(0) ? kind : concat(kind, "(", value.expr.to_string(), ")");
}

class GraphPrinter {
 public:
  explicit GraphPrinter(const Graph& graph) : graph_(graph) {}

  std::string run() {
    for (const auto& [name, symbol] : graph_.symbols) {
      line(symbol_text(name, symbol));
    }
    for (const Input& input : graph_.inputs) {
      line(input_text(input));
    }
    for (const Op& op : graph_.ops) {
      line(op_text(op));
    }
    const std::string outputs = items_text(graph_.outputs);
    line(outputs.empty() ? "return" : "return " + outputs);
    if (!graph_.in_spec.empty()) {
      line("in_spec " + quote(graph_.in_spec));
    }
    if (!graph_.out_spec.empty()) {
      line("out_spec " + quote(graph_.out_spec));
    }
    return std::move(out_);
  }

 private:
  void line(const std::string& text) { out_ += "  " + text + "\n"; }

  std::string items_text(const std::vector<Argument>& items) const {
    return joined(items, [this](const Argument& item) { return argument_text(item); });
  }

  std::string use(ValueId id) const {
    if (id >= graph_.values.size()) {
      return concat("%?", id);
    }
    const std::string& name = graph_.value(id).name;
    return "%" + (is_dotted_identifier(name) ? name : quote(name));
  }

  std::string definition(ValueId id, bool requires_grad_default) const {
    return id >= graph_.values.size()
               ? use(id)
               : concat(use(id), " : ", value_text(graph_.value(id), requires_grad_default));
  }

  static std::string symbol_text(const std::string& name, const Symbol& symbol) {
    std::string out = concat("symbol ", bare_or_quoted(name), " = ", symbol.hint);
    if (symbol.min || symbol.max) {
      out += " in [" + (symbol.min ? std::to_string(*symbol.min) : "-inf") + ", " +
             (symbol.max ? std::to_string(*symbol.max) : "inf") + "]";
    }
    return out;
  }

  std::string input_text(const Input& input) const {
    const std::string_view kind = name_of(input.kind);
    if (input.kind == InputKind::kLiteral) {
      return concat(kind, " ", quote(input.target), " = ", argument_text(input.literal));
    }
    const std::string head =
        concat(kind, " ", definition(input.value, requires_grad_by_default(input.kind)));
    return input.target.empty() ? head : concat(head, " = ", quote(input.target));
  }

  std::string op_text(const Op& op) const {
    std::string out = joined(op.results, [this](const Result& result) { return results(result); });
    out += out.empty() ? "" : " = ";
    // Without a dot it could be taken for the word that begins another statement.
    const bool bare = is_dotted_identifier(op.target) && op.target.find('.') != std::string::npos;
    out += bare ? op.target : quote(op.target);
    out += "(" + joined(op.arguments, [this](const NamedArgument& argument) {
             return concat(bare_or_quoted(argument.name),
                           argument.positional ? "=" : ":=", argument_text(argument.value));
           });
    out += ")";
    out += op.module.empty() ? "" : " in " + quote(op.module);
    out += op.source.empty() ? "" : " at " + quote(op.source);
    return out;
  }

  std::string results(const Result& result) const {
    if (result.kind == Result::Kind::kNone) {
      return "_";
    }
    const std::string values =
        joined(result.values, [this](ValueId id) { return definition(id, false); });
    const bool single = result.kind == Result::Kind::kValue && result.values.size() == 1;
    return single ? values : "[" + values + "]";
  }

  std::string argument_text(const Argument& argument) const {
    return std::visit(Overloaded{
                          [](None) { return std::string("none"); },
                          [this](Ref ref) { return use(ref.id); },
                          [](bool value) { return std::string(value ? "true" : "false"); },
                          [](std::int64_t value) { return std::to_string(value); },
                          [](double value) { return float_text(value); },
                          [](const std::complex<double>& value) {
                            return concat("complex(", float_text(value.real()), ", ",
                                          float_text(value.imag()), ")");
                          },
                          [](const std::string& value) { return quote(value); },
                          [](DType value) { return std::string(name_of(value)); },
                          [](MemoryFormat value) { return std::string(name_of(value)); },
                          [](const Device& value) { return device_text(value); },
                          [this](const List& list) { return list_text(list); },
                      },
                      argument.value);
  }

  std::string list_text(const List& list) const {
    const bool unsaid = infer_list_kind(graph_, list.items) == list.kind;
    return concat(unsaid ? "" : name_of(list.kind), "[", items_text(list.items), "]");
  }

  const Graph& graph_;
  std::string out_;
};

std::string weight_text(const Weight& weight) {
  std::string out = concat("weight ", name_of(weight.kind), " ", quote(weight.name), " : ",
                           tensor_text(weight.type, requires_grad_by_default(weight.kind)));
  out += weight.persistent ? "" : " transient";
  out += weight.storage_key == weight.name ? "" : " key " + quote(weight.storage_key);
  return out;
}

}  // namespace

std::string to_text(const Graph& graph) { return "graph\n" + GraphPrinter(graph).run(); }

std::string to_text(const Program& program) {
  std::string out = "program\n";
  for (const auto& [key, value] : program.metadata) {
    out += concat("metadata ", quote(key), " = ", quote(value), "\n");
  }
  for (const Weight& weight : program.weights) {
    out += weight_text(weight) + "\n";
  }
  out += to_text(program.graph);
  if (program.eval_graph) {
    out += "graph eval\n" + GraphPrinter(*program.eval_graph).run();
  }
  return out;
}

}  // namespace ravnest::graph
