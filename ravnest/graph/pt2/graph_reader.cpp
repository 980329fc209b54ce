#include <algorithm>
#include <set>
#include <unordered_map>

#include "ravnest/base/error.h"
#include "ravnest/graph/pt2/json.h"

namespace ravnest::graph::pt2 {

namespace {

constexpr std::string_view kTorchOps = "torch.ops.";
constexpr std::string_view kHigherOrder = "higher_order.";
constexpr int kMaxInlining = 16;

std::string target_of(const Json& node) {
  std::string target = string_of(node, "target");
  if (target.starts_with(kTorchOps)) {
    target.erase(0, kTorchOps.size());
  }
  return target;
}

// "L__self__,,Net;L__self___conv,layer1.conv,torch.nn.Conv2d" → "layer1.conv".
std::string module_path(const std::string& module_stack) {
  const std::size_t last = module_stack.rfind(';');
  const std::string entry = module_stack.substr(last == std::string::npos ? 0 : last + 1);
  const std::size_t first_comma = entry.find(',');
  if (first_comma == std::string::npos) {
    return {};
  }
  std::string path =
      entry.substr(first_comma + 1, entry.find(',', first_comma + 1) - first_comma - 1);
  return path.starts_with("_empty_nn_module_stack") ? std::string() : path;  // export's own word
}

constexpr std::size_t kLongestTrace = 16'000;

// The innermost line of the user's own code, as "models.py:26": torch's own
// files say little, and folders are nobody else's business.
std::string source_line(const std::string& whole_trace) {
  const std::string stack_trace =
      whole_trace.substr(whole_trace.size() - std::min(whole_trace.size(), kLongestTrace));
  std::string found;
  std::size_t at = 0;
  while ((at = stack_trace.find("File \"", at)) != std::string::npos) {
    at += 6;
    const std::size_t quote = stack_trace.find("\", line ", at);
    if (quote == std::string::npos) {
      break;
    }
    const std::string path = stack_trace.substr(at, quote - at);
    const std::size_t number = quote + 8;
    const std::size_t digits = stack_trace.find_first_not_of("0123456789", number);
    if (found.empty() || path.find("site-packages/torch/") == std::string::npos) {
      found = path.substr(path.rfind('/') + 1) + ":" + stack_trace.substr(number, digits - number);
    }
  }
  return found;
}

// Reads one exported graph; graphs nested in higher-order ops are inlined, so
// that the result is flat.
class GraphReader {
 public:
  explicit GraphReader(const Json& exported) : exported_(exported) {}

  Graph read() {
    const Json& module = object_of(exported_, "graph_module");
    const Json& signature = object_of(module, "signature");
    read_ranges();
    Scope scope(member(module, "graph"));
    read_inputs(scope, array_of(signature, "input_specs"));
    read_nodes(scope, 0);
    read_outputs(scope, array_of(signature, "output_specs"));
    read_specs(module);
    return std::move(graph_);
  }

 private:
  // The names visible in one graph of the file, nested or not.
  struct Scope {
    explicit Scope(const Json& json_graph)
        : graph(json_graph), tensors(object_of(json_graph, "tensor_values")) {}

    const Json& graph;
    const Json& tensors;
    Names names;
  };

  ValueId define(Scope& scope, const std::string& name, ValueKind kind) {
    Value value{.name = unique_name(name), .kind = kind, .type = {}, .expr = {}};
    if (kind == ValueKind::kTensor) {
      if (const Json* meta = find_member(scope.tensors, name.c_str())) {
        value.type = read_tensor_type(*meta, graph_.symbols);
      }
    } else if (kind == ValueKind::kInt) {
      if (const Json* known = find_member(object_of(scope.graph, "sym_int_values"), name.c_str())) {
        value.expr = read_sym_int(*known, graph_.symbols);
      }
    }
    const ValueId id = graph_.add_value(std::move(value));
    bind(scope, name, id);
    return id;
  }

  static void bind(Scope& scope, const std::string& name, ValueId id) {
    if (!scope.names.emplace(name, id).second) {
      throw_invalid("value '", name, "' is defined twice");
    }
  }

  std::string unique_name(const std::string& name) {
    if (name.empty() || name.size() > 1000) {
      throw_invalid("expected a value name of 1 to 1000 characters, got ", name.size());
    }
    std::string candidate = name;
    for (std::size_t n = 1; !used_names_.insert(candidate).second; ++n) {
      n = std::max(n, next_suffix_[name]);
      candidate = concat(name, "__", n);
      next_suffix_[name] = n + 1;
    }
    return candidate;
  }

  void read_ranges() {
    for (const auto& [name, range] : object_of(exported_, "range_constraints").items()) {
      Symbol& symbol = ranges_[name];
      if (const Json* low = find_member(range, "min_val")) {
        symbol.min = integer(*low);
      }
      if (const Json* high = find_member(range, "max_val")) {
        symbol.max = integer(*high);
      }
    }
  }

  void read_inputs(Scope& scope, const Json& specs) {
    const Json& inputs = array_of(scope.graph, "inputs");
    if (inputs.size() != specs.size()) {
      throw_invalid("expected one input spec for each of ", inputs.size(), " inputs, got ",
                    specs.size());
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto [kind, spec] = variant_of(specs[i]);
      graph_.inputs.push_back(read_input(scope, inputs[i], kind, spec));
    }
  }

  Input read_input(Scope& scope, const Json& argument, std::string_view kind, const Json& spec) {
    if (kind == "constant_input") {
      return {.kind = InputKind::kLiteral,
              .value = 0,
              .target = string_of(spec, "name"),
              .literal = read_argument(member(spec, "value"), scope.names)};
    }
    const auto [tag, content] = variant_of(argument);
    if (kind == "user_input") {
      if (tag != "as_tensor" && tag != "as_sym_int") {
        throw_invalid("expected a tensor or a size as input, got '", tag, "'");
      }
      const bool tensor = tag == "as_tensor";
      const ValueId id = define(scope, string_of(content, tensor ? "name" : "as_name"),
                                tensor ? ValueKind::kTensor : ValueKind::kInt);
      return {.kind = InputKind::kUser, .value = id, .target = {}, .literal = {}};
    }
    static const std::unordered_map<std::string_view, std::pair<InputKind, const char*>> kWeights{
        {"parameter", {InputKind::kParameter, "parameter_name"}},
        {"buffer", {InputKind::kBuffer, "buffer_name"}},
        {"tensor_constant", {InputKind::kConstant, "tensor_constant_name"}},
    };
    const auto found = kWeights.find(kind);
    if (found == kWeights.end() || tag != "as_tensor") {
      throw_invalid("inputs of kind '", kind, "' (custom objects, tokens) are not supported");
    }
    const ValueId id = define(scope, string_of(content, "name"), ValueKind::kTensor);
    return {.kind = found->second.first,
            .value = id,
            .target = string_of(spec, found->second.second),
            .literal = {}};
  }

  void read_nodes(Scope& scope, int depth) {
    std::size_t index = 0;
    for (const Json& node : array_of(scope.graph, "nodes")) {
      const std::string target = target_of(node);
      try {
        if (target.starts_with(kHigherOrder)) {
          inline_graph(scope, node, target.substr(kHigherOrder.size()), depth);
        } else {
          read_node(scope, node, target);
        }
      } catch (const std::invalid_argument& error) {
        throw_invalid("op ", index, " (", target, "): ", error.what());
      }
      ++index;
    }
  }

  void read_node(Scope& scope, const Json& node, const std::string& target) {
    Op op{.target = target, .arguments = {}, .results = {}, .module = {}, .source = {}};
    for (const Json& input : array_of(node, "inputs")) {
      const Json* kind = find_member(input, "kind");
      op.arguments.push_back({.name = string_of(input, "name"),
                              .value = read_argument(member(input, "arg"), scope.names),
                              .positional = kind == nullptr || integer(*kind) != 2});
    }
    for (const Json& output : array_of(node, "outputs")) {
      op.results.push_back(read_result(scope, output));
    }
    if (const Json* notes = find_member(node, "metadata")) {
      read_notes(*notes, op);
    }
    graph_.ops.push_back(std::move(op));
  }

  static void read_notes(const Json& notes, Op& op) {
    if (const Json* module = find_member(notes, "ravnest.module")) {
      op.module = text(*module);
    } else if (const Json* stack = find_member(notes, "nn_module_stack")) {
      op.module = module_path(text(*stack));
    }
    if (const Json* source = find_member(notes, "ravnest.source")) {
      op.source = text(*source);
    } else if (const Json* trace = find_member(notes, "stack_trace")) {
      op.source = source_line(text(*trace));
    }
  }

  Result read_result(Scope& scope, const Json& output) {
    const auto [tag, content] = variant_of(output);
    if (tag == "as_none") {
      return {.kind = Result::Kind::kNone, .values = {}};
    }
    if (tag == "as_tensors") {
      Result result{.kind = Result::Kind::kList, .values = {}};
      for (const Json& item : content) {
        result.values.push_back(define(scope, string_of(item, "name"), ValueKind::kTensor));
      }
      return result;
    }
    return {.kind = Result::Kind::kValue, .values = {define_result(scope, tag, content)}};
  }

  ValueId define_result(Scope& scope, std::string_view tag, const Json& content) {
    if (tag == "as_tensor") {
      return define(scope, string_of(content, "name"), ValueKind::kTensor);
    }
    if (tag == "as_sym_int") {
      return define(scope, string_of(content, "as_name"), ValueKind::kInt);
    }
    if (tag == "as_sym_float") {
      return define(scope, string_of(content, "as_name"), ValueKind::kFloat);
    }
    if (tag == "as_sym_bool") {
      return define(scope, string_of(content, "as_name"), ValueKind::kBool);
    }
    throw_invalid("expected a tensor or a size as result, got '", tag, "'");
  }

  // torch.no_grad() and friends come as ops that hold a graph. Cutting gradients
  // off at its inputs has the same effect and keeps the Program flat.
  void inline_graph(Scope& scope, const Json& node, const std::string& name, int depth) {
    const Json& inputs = array_of(node, "inputs");
    std::vector<const Json*> arguments;
    const Json* nested = nullptr;
    std::vector<const Json*> options;
    for (const Json& input : inputs) {
      const Json& argument = member(input, "arg");
      const auto [tag, content] = variant_of(argument);
      if (nested == nullptr && tag == "as_graph") {
        nested = &content;
      } else {
        (nested == nullptr ? options : arguments).push_back(&argument);
      }
    }
    if (nested == nullptr || depth >= kMaxInlining) {
      throw_invalid("this kind of control flow cannot be flattened");
    }
    Scope inner(member(*nested, "graph"));
    bind_inlined_inputs(scope, inner, arguments, cuts_gradients(name, options));
    read_nodes(inner, depth + 1);
    bind_inlined_outputs(scope, inner, array_of(node, "outputs"));
  }

  static bool cuts_gradients(const std::string& name, const std::vector<const Json*>& options) {
    if (name == "wrap_with_set_grad_enabled" && options.size() == 1) {
      return !boolean(member(*options[0], "as_bool"));
    }
    // Autocast that is switched off changes nothing.
    if (name == "wrap_with_autocast" && options.size() == 4 &&
        !boolean(member(*options[2], "as_bool"))) {
      return false;
    }
    if (name == "tag_activation_checkpoint" || name == "wrap") {
      return false;
    }
    throw_invalid(name == "wrap_with_autocast"
                      ? "autocast regions are not supported; cast the model's weights and inputs"
                      : "control flow that depends on data (cond, while_loop, map) is not "
                        "supported; replace it with torch.where or move it out of the model");
  }

  void bind_inlined_inputs(const Scope& scope, Scope& inner,
                           const std::vector<const Json*>& arguments, bool cut_gradients) {
    const Json& inputs = array_of(inner.graph, "inputs");
    if (inputs.size() != arguments.size()) {
      throw_invalid("expected ", inputs.size(), " arguments for its graph, got ", arguments.size());
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto [tag, content] = variant_of(inputs[i]);
      const Argument given = read_argument(*arguments[i], scope.names);
      if (tag != "as_tensor" && tag != "as_sym_int") {
        continue;
      }
      const Ref* ref = given.find_ref();
      if (ref == nullptr) {
        throw_invalid("expected a value for input ", i, " of its graph");
      }
      const std::string name = string_of(content, tag == "as_tensor" ? "name" : "as_name");
      ValueId id = ref->id;
      if (cut_gradients && tag == "as_tensor") {
        Value detached = graph_.values[id];
        detached.name = unique_name(detached.name + "_detached");
        detached.type.requires_grad = false;
        id = graph_.add_value(std::move(detached));
        graph_.ops.push_back({.target = "aten.detach.default",
                              .arguments = {{.name = "self", .value = {*ref}}},
                              .results = {{.values = {id}}},
                              .module = {},
                              .source = {}});
      }
      bind(inner, name, id);
    }
  }

  void bind_inlined_outputs(Scope& scope, const Scope& inner, const Json& outputs) {
    std::vector<std::string> names;
    for (const Json& output : outputs) {
      const auto [tag, content] = variant_of(output);
      if (tag == "as_tensors") {
        for (const Json& item : content) {
          names.push_back(string_of(item, "name"));
        }
      } else {
        names.push_back(tag == "as_none"
                            ? std::string()
                            : string_of(content, tag == "as_tensor" ? "name" : "as_name"));
      }
    }
    const Json& results = array_of(inner.graph, "outputs");
    if (names.size() > results.size()) {
      throw_invalid("expected ", names.size(), " results of its graph, got ", results.size());
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Argument result = read_argument(results[i], inner.names);
      if (names[i].empty()) {
        continue;
      }
      if (result.find_ref() == nullptr) {
        throw_invalid("expected a value as result ", i, " of its graph");
      }
      bind(scope, names[i], result.find_ref()->id);
    }
  }

  // Buffers changed by a functional graph come as extra outputs; as a copy into
  // the buffer at the end they need no special place in the Program.
  void read_outputs(Scope& scope, const Json& specs) {
    for (const Json& spec : specs) {
      const auto [kind, content] = variant_of(spec);
      if (kind == "user_output") {
        graph_.outputs.push_back(read_argument(member(content, "arg"), scope.names));
      } else if (kind == "loss_output") {
        graph_.outputs.push_back({use(scope.names, string_of(member(content, "arg"), "name"))});
      } else if (kind == "buffer_mutation" || kind == "user_input_mutation") {
        const bool buffer = kind == "buffer_mutation";
        const Ref source = use(scope.names, string_of(member(content, "arg"), "name"));
        const Ref target = buffer ? find_buffer(string_of(content, "buffer_name"))
                                  : use(scope.names, string_of(content, "user_input_name"));
        add_copy(target, source);
      } else {
        throw_invalid("outputs of kind '", kind, "' are not supported");
      }
    }
  }

  Ref find_buffer(const std::string& name) const {
    const auto found = std::ranges::find_if(graph_.inputs, [&name](const Input& input) {
      return input.kind == InputKind::kBuffer && input.target == name;
    });
    if (found == graph_.inputs.end()) {
      throw_invalid("the changed buffer '", name, "' is not an input");
    }
    return {found->value};
  }

  void add_copy(Ref target, Ref source) {
    Value copied = graph_.values[target.id];
    copied.name = unique_name(copied.name + "_updated");
    const ValueId id = graph_.add_value(std::move(copied));
    graph_.ops.push_back(
        {.target = "aten.copy_.default",
         .arguments = {{.name = "self", .value = {target}}, {.name = "src", .value = {source}}},
         .results = {{.values = {id}}},
         .module = {},
         .source = {}});
  }

  void read_specs(const Json& module) {
    const Json& calls = array_of(module, "module_call_graph");
    for (const Json& call : calls) {
      const Json* signature = find_member(call, "signature");
      if (string_of(call, "fqn").empty() && signature != nullptr) {
        graph_.in_spec = string_of(*signature, "in_spec");
        graph_.out_spec = string_of(*signature, "out_spec");
      }
    }
    for (auto& [name, symbol] : graph_.symbols) {
      if (const auto range = ranges_.find(name); range != ranges_.end()) {
        symbol.min = range->second.min;
        symbol.max = range->second.max;
      }
    }
  }

  const Json& exported_;
  Graph graph_;
  std::map<std::string, Symbol> ranges_;
  std::set<std::string> used_names_;
  std::map<std::string, std::size_t> next_suffix_;
};

}  // namespace

Graph read_graph(const Json& exported, std::map<std::string, std::string>& metadata) {
  const std::string prefix = "ravnest.";
  if (const Json* notes = find_member(object_of(exported, "graph_module"), "metadata")) {
    for (const auto& [key, value] : notes->items()) {
      if (key.starts_with(prefix)) {
        metadata[key.substr(prefix.size())] = text(value);
      }
    }
  }
  return GraphReader(exported).read();
}

}  // namespace ravnest::graph::pt2
