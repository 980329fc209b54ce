#include <set>
#include <unordered_map>

#include "ravnest/base/error.h"
#include "ravnest/graph/pt2/json.h"
#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/graph/pt2/zip.h"

namespace ravnest::graph {

namespace {

using pt2::OrderedJson;

constexpr int kPositional = 1;
constexpr int kKeyword = 2;
constexpr int kStrided = 7;

OrderedJson leaf_spec() {
  return {{"type", nullptr}, {"context", nullptr}, {"children_spec", OrderedJson::array()}};
}

OrderedJson tuple_spec(std::size_t leaves) {
  OrderedJson children = OrderedJson::array();
  for (std::size_t i = 0; i < leaves; ++i) {
    children.push_back(leaf_spec());
  }
  return {{"type", "builtins.tuple"}, {"context", "null"}, {"children_spec", std::move(children)}};
}

std::string with_version(OrderedJson spec) {
  return OrderedJson::array({1, std::move(spec)}).dump();
}

std::string dumped(const OrderedJson& json) {
  try {
    return json.dump();
  } catch (const OrderedJson::exception&) {
    throw_invalid("[graph] the Program cannot be saved: expected names and notes in UTF-8.");
  }
}

OrderedJson write_float(double value) {
  if (value != value) {
    return "NaN";
  }
  if (value - value != 0) {
    return value > 0 ? "Infinity" : "-Infinity";
  }
  return value;
}

OrderedJson write_device(const Device& device) {
  return {{"type", device.type},
          {"index", device.index < 0 ? OrderedJson(nullptr) : OrderedJson(device.index)}};
}

OrderedJson name_of_tensor(const std::string& name) { return {{"name", name}}; }

// An object that will have so many members. One that grows copies those that it has, and theirs.
OrderedJson object_for(std::size_t members) {
  OrderedJson object = OrderedJson::object();
  object.get_ref<OrderedJson::object_t&>().reserve(members);
  return object;
}

// Writes one graph as torch.export's JSON.
class GraphWriter {
 public:
  explicit GraphWriter(const Graph& graph) : graph_(graph), hints_(graph.hints()) {}

  OrderedJson write(const std::map<std::string, std::string>& metadata,
                    const std::set<std::string>& transient) {
    OrderedJson notes = OrderedJson::object();
    for (const auto& [key, value] : metadata) {
      notes["ravnest." + key] = value;
    }
    OrderedJson ranges = OrderedJson::object();
    for (const auto& [name, symbol] : graph_.symbols) {
      ranges[name] = {{"min_val", symbol.min ? OrderedJson(*symbol.min) : OrderedJson(nullptr)},
                      {"max_val", symbol.max ? OrderedJson(*symbol.max) : OrderedJson(nullptr)}};
    }
    OrderedJson module = object_for(5);
    module["graph"] = write_graph();
    module["signature"] = write_signature(transient);
    module["module_call_graph"].push_back(write_call());
    module["metadata"] = std::move(notes);
    module["treespec_namedtuple_fields"] = OrderedJson::object();
    OrderedJson exported = object_for(7);
    exported["graph_module"] = std::move(module);
    exported["opset_version"] = {{"aten", 10}};
    exported["range_constraints"] = std::move(ranges);
    exported["schema_version"] = {{"major", 8}, {"minor", 20}};
    exported["verifiers"].push_back("TRAINING");
    exported["torch_version"] = "2.13.0";
    exported["guards_code"] = OrderedJson::array();
    return exported;
  }

 private:
  OrderedJson write_graph() const {
    OrderedJson inputs = OrderedJson::array();
    for (const Input& input : graph_.inputs) {
      inputs.push_back(input.kind == InputKind::kLiteral ? write_argument(input.literal)
                                                         : write_use(input.value));
    }
    OrderedJson outputs = OrderedJson::array();
    for (const Argument& output : graph_.outputs) {
      outputs.push_back(write_argument(output));
    }
    OrderedJson nodes = OrderedJson::array();
    for (const Op& op : graph_.ops) {
      nodes.push_back(write_op(op));
    }
    OrderedJson tensors = object_for(graph_.values.size());
    OrderedJson ints = OrderedJson::object();
    for (const Value& value : graph_.values) {
      if (value.kind == ValueKind::kTensor && value.type.is_known()) {
        tensors[value.name] = write_type(value.type);
      } else if (value.kind == ValueKind::kInt) {
        ints[value.name] = write_size(value.expr);
      }
    }
    OrderedJson written = object_for(9);
    written["inputs"] = std::move(inputs);
    written["outputs"] = std::move(outputs);
    written["nodes"] = std::move(nodes);
    written["tensor_values"] = std::move(tensors);
    written["sym_int_values"] = std::move(ints);
    written["sym_bool_values"] = OrderedJson::object();
    written["is_single_tensor_return"] = false;
    written["custom_obj_values"] = OrderedJson::object();
    written["sym_float_values"] = OrderedJson::object();
    return written;
  }

  OrderedJson write_op(const Op& op) const {
    OrderedJson inputs = OrderedJson::array();
    for (const NamedArgument& argument : op.arguments) {
      inputs.push_back({{"name", argument.name},
                        {"arg", write_argument(argument.value)},
                        {"kind", argument.positional ? kPositional : kKeyword}});
    }
    OrderedJson outputs = OrderedJson::array();
    for (const Result& result : op.results) {
      outputs.push_back(write_result(result));
    }
    OrderedJson notes = OrderedJson::object();
    if (!op.module.empty()) {
      notes["ravnest.module"] = op.module;
    }
    if (!op.source.empty()) {
      notes["ravnest.source"] = op.source;
    }
    OrderedJson node = {{"target", op.target.starts_with("_") || op.target.starts_with("math.") ||
                                           op.target.starts_with("torch.")
                                       ? op.target
                                       : "torch.ops." + op.target},
                        {"inputs", std::move(inputs)},
                        {"outputs", std::move(outputs)},
                        {"metadata", std::move(notes)},
                        {"is_hop_single_tensor_return", nullptr}};
    if (op.results.size() == 1 && op.results[0].kind == Result::Kind::kValue) {
      node["name"] = graph_.value(op.results[0].values[0]).name;
    }
    return node;
  }

  OrderedJson write_result(const Result& result) const {
    switch (result.kind) {
      case Result::Kind::kNone:
        return {{"as_none", true}};
      case Result::Kind::kValue:
        return write_use(result.values.at(0));
      case Result::Kind::kList:
        break;
    }
    OrderedJson names = OrderedJson::array();
    for (const ValueId id : result.values) {
      names.push_back(name_of_tensor(graph_.value(id).name));
    }
    return {{"as_tensors", std::move(names)}};
  }

  OrderedJson write_use(ValueId id) const {
    const Value& value = graph_.value(id);
    switch (value.kind) {
      case ValueKind::kTensor:
        return {{"as_tensor", name_of_tensor(value.name)}};
      case ValueKind::kInt:
        return {{"as_sym_int", {{"as_name", value.name}}}};
      case ValueKind::kFloat:
        return {{"as_sym_float", {{"as_name", value.name}}}};
      case ValueKind::kBool:
        break;
    }
    return {{"as_sym_bool", {{"as_name", value.name}}}};
  }

  OrderedJson write_argument(const Argument& argument) const {
    return std::visit([this](const auto& value) { return write_content(value); }, argument.value);
  }

  OrderedJson write_content(const None&) const { return {{"as_none", true}}; }
  OrderedJson write_content(const Ref& ref) const { return write_use(ref.id); }
  OrderedJson write_content(bool value) const { return {{"as_bool", value}}; }
  OrderedJson write_content(std::int64_t value) const { return {{"as_int", value}}; }
  OrderedJson write_content(double value) const { return {{"as_float", write_float(value)}}; }
  OrderedJson write_content(const std::string& value) const { return {{"as_string", value}}; }
  OrderedJson write_content(const std::complex<double>& value) const {
    return {
        {"as_complex", {{"real", write_float(value.real())}, {"imag", write_float(value.imag())}}}};
  }
  OrderedJson write_content(DType dtype) const {
    return {{"as_scalar_type", static_cast<int>(dtype)}};
  }
  OrderedJson write_content(MemoryFormat format) const {
    return {{"as_memory_format", static_cast<int>(format)}};
  }
  OrderedJson write_content(const Device& device) const {
    return {{"as_device", write_device(device)}};
  }
  OrderedJson write_content(const List& list) const {
    bool symbolic = false;
    for (const Argument& item : list.items) {
      symbolic = symbolic || item.find_ref() != nullptr;
    }
    switch (list.kind) {
      case ListKind::kTensors:
        return {{"as_tensors", names_of(list)}};
      case ListKind::kOptionalTensors:
        return {{"as_optional_tensors", tagged(list)}};
      case ListKind::kInts:
        return symbolic ? OrderedJson{{"as_sym_ints", symbolic_items(list)}}
                        : OrderedJson{{"as_ints", plain(list)}};
      case ListKind::kFloats:
        return symbolic ? OrderedJson{{"as_sym_floats", symbolic_items(list)}}
                        : OrderedJson{{"as_floats", plain(list)}};
      case ListKind::kBools:
        return symbolic ? OrderedJson{{"as_sym_bools", symbolic_items(list)}}
                        : OrderedJson{{"as_bools", plain(list)}};
      case ListKind::kStrings:
        return {{"as_strings", plain(list)}};
      case ListKind::kLists:
        break;
    }
    return write_nested(list);
  }

  // The content of each item without its tag.
  OrderedJson plain(const List& list) const {
    OrderedJson items = OrderedJson::array();
    for (const Argument& item : list.items) {
      items.push_back(*write_argument(item).begin());
    }
    return items;
  }

  OrderedJson tagged(const List& list) const {
    OrderedJson items = OrderedJson::array();
    for (const Argument& item : list.items) {
      items.push_back(write_argument(item));
    }
    return items;
  }

  OrderedJson names_of(const List& list) const {
    OrderedJson items = OrderedJson::array();
    for (const Argument& item : list.items) {
      RAVNEST_CHECK(item.find_ref() != nullptr);
      items.push_back(name_of_tensor(graph_.value(item.find_ref()->id).name));
    }
    return items;
  }

  OrderedJson symbolic_items(const List& list) const {
    OrderedJson items = OrderedJson::array();
    for (const Argument& item : list.items) {
      if (const Ref* ref = item.find_ref()) {
        items.push_back({{"as_name", graph_.value(ref->id).name}});
      } else {
        items.push_back(write_argument(item));
      }
    }
    return items;
  }

  OrderedJson write_nested(const List& list) const {
    OrderedJson items = OrderedJson::array();
    ListKind kind = ListKind::kInts;
    for (const Argument& item : list.items) {
      RAVNEST_CHECK(item.find_list() != nullptr);
      kind = item.find_list()->kind;
      items.push_back(*write_content(*item.find_list()).begin());
    }
    const char* tag = kind == ListKind::kTensors  ? "as_nested_tensors"
                      : kind == ListKind::kFloats ? "as_float_lists"
                                                  : "as_int_lists";
    return {{tag, std::move(items)}};
  }

  OrderedJson write_size(const Expr& size) const {
    if (size.is_constant()) {
      return {{"as_int", size.constant()}};
    }
    OrderedJson expr = {{"expr_str", size.to_srepr()}, {"hint", nullptr}};
    if (const auto hint = size.evaluate(hints_)) {
      expr["hint"] = {{"as_int", *hint}};
    }
    return {{"as_expr", std::move(expr)}};
  }

 public:
  OrderedJson write_type(const TensorType& type) const {
    OrderedJson sizes = OrderedJson::array();
    for (const Expr& size : type.sizes) {
      sizes.push_back(write_size(size));
    }
    OrderedJson strides = OrderedJson::array();
    for (const Expr& stride : type.strides) {
      strides.push_back(write_size(stride));
    }
    return {{"dtype", static_cast<int>(type.dtype)},
            {"sizes", std::move(sizes)},
            {"requires_grad", type.requires_grad},
            {"device", write_device(type.device)},
            {"strides", std::move(strides)},
            {"storage_offset", write_size(type.storage_offset)},
            {"layout", kStrided}};
  }

 private:
  OrderedJson write_signature(const std::set<std::string>& transient) const {
    OrderedJson inputs = OrderedJson::array();
    for (const Input& input : graph_.inputs) {
      inputs.push_back(write_input_spec(input, transient));
    }
    OrderedJson outputs = OrderedJson::array();
    for (const Argument& output : graph_.outputs) {
      outputs.push_back({{"user_output", {{"arg", write_argument(output)}}}});
    }
    return {{"input_specs", std::move(inputs)}, {"output_specs", std::move(outputs)}};
  }

  OrderedJson write_input_spec(const Input& input, const std::set<std::string>& transient) const {
    if (input.kind == InputKind::kLiteral) {
      return {
          {"constant_input", {{"name", input.target}, {"value", write_argument(input.literal)}}}};
    }
    if (input.kind == InputKind::kUser) {
      return {{"user_input", {{"arg", write_use(input.value)}}}};
    }
    const OrderedJson arg = name_of_tensor(graph_.value(input.value).name);
    if (input.kind == InputKind::kParameter) {
      return {{"parameter", {{"arg", arg}, {"parameter_name", input.target}}}};
    }
    if (input.kind == InputKind::kConstant) {
      return {{"tensor_constant", {{"arg", arg}, {"tensor_constant_name", input.target}}}};
    }
    return {{"buffer",
             {{"arg", arg},
              {"buffer_name", input.target},
              {"persistent", !transient.contains(input.target)}}}};
  }

  OrderedJson write_call() const {
    std::vector<std::string> names;
    for (const Input* input : graph_.user_inputs()) {
      names.push_back(input->kind == InputKind::kLiteral ? input->target
                                                         : graph_.value(input->value).name);
    }
    const std::string in_spec =
        graph_.in_spec.empty() ? flat_in_spec(names.size()) : graph_.in_spec;
    const std::string out_spec =
        graph_.out_spec.empty() ? flat_out_spec(graph_.outputs.size()) : graph_.out_spec;
    OrderedJson signature = {
        {"inputs", OrderedJson::array()},
        {"outputs", OrderedJson::array()},
        {"in_spec", in_spec},
        {"out_spec", out_spec},
        {"forward_arg_names", graph_.in_spec.empty() ? OrderedJson(names) : OrderedJson(nullptr)}};
    return {{"fqn", ""}, {"signature", std::move(signature)}};
  }

  const Graph& graph_;
  SymbolValues hints_;
};

// Writes weights and constants, one entry per storage, and their directories.
class WeightWriter {
 public:
  WeightWriter(const Program& program, ZipWriter& archive)
      : program_(program), archive_(archive), types_(program.graph) {}

  void write() {
    for (const Weight& weight : program_.weights) {
      const bool in_weights = weight.in_state_dict();
      OrderedJson& config = in_weights ? weights_ : constants_;
      config[weight.name] = {{"path_name", path_of(weight, in_weights)},
                             {"is_param", weight.kind == InputKind::kParameter},
                             {"use_pickle", false},
                             {"tensor_meta", types_.write_type(weight.type)}};
    }
  }

  void write_config(const std::string& model) {
    archive_.add("data/weights/" + model + "_weights_config.json", dumped({{"config", weights_}}));
    archive_.add("data/constants/" + model + "_constants_config.json",
                 dumped({{"config", constants_}}));
  }

 private:
  std::string path_of(const Weight& weight, bool in_weights) {
    auto& paths = in_weights ? weight_paths_ : constant_paths_;
    const auto found = paths.find(weight.storage_key);
    if (found != paths.end()) {
      return found->second;
    }
    if (weight.storage.empty() && numel(weight.type, {}).value_or(1) != 0) {
      throw_invalid("[graph] weight '", weight.name,
                    "' has no data here (a Program read from text has none), so that the "
                    "Program cannot be saved.");
    }
    std::string path = concat(in_weights ? "weight_" : "tensor_", paths.size());
    archive_.add((in_weights ? "data/weights/" : "data/constants/") + path, weight.storage.view());
    return paths.emplace(weight.storage_key, std::move(path)).first->second;
  }

  const Program& program_;
  ZipWriter& archive_;
  GraphWriter types_;
  OrderedJson weights_ = object_for(program_.weights.size());
  OrderedJson constants_ = OrderedJson::object();
  std::unordered_map<std::string, std::string> weight_paths_;
  std::unordered_map<std::string, std::string> constant_paths_;
};

}  // namespace

std::string flat_in_spec(std::size_t inputs) {
  OrderedJson kwargs = {
      {"type", "builtins.dict"}, {"context", "[]"}, {"children_spec", OrderedJson::array()}};
  return with_version(
      {{"type", "builtins.tuple"},
       {"context", "null"},
       {"children_spec", OrderedJson::array({tuple_spec(inputs), std::move(kwargs)})}});
}

std::string flat_out_spec(std::size_t outputs) { return with_version(tuple_spec(outputs)); }

void write_pt2(const Program& program, const std::filesystem::path& path, Durability durability) {
  ZipWriter archive(path, "model");
  WeightWriter weights(program, archive);
  weights.write();
  std::set<std::string> transient;
  for (const Weight& weight : program.weights) {
    if (!weight.persistent) {
      transient.insert(weight.name);
    }
  }
  const auto write_model = [&](const std::string& name, const Graph& graph) {
    weights.write_config(name);
    archive.add("models/" + name + ".json",
                dumped(GraphWriter(graph).write(program.metadata, transient)));
    // torch.export.load insists on this entry and accepts an empty one.
    archive.add("data/sample_inputs/" + name + ".pt", std::string_view());
  };
  write_model("model", program.graph);
  if (program.eval_graph) {
    write_model("eval", *program.eval_graph);
  }
  archive.add("archive_format", std::string_view("pt2"));
  archive.add("archive_version", std::string_view("0"));
  archive.add(".data/version", std::string_view("6\n"));
  archive.add("byteorder", std::string_view("little"));
  archive.finish(durability);
}

}  // namespace ravnest::graph
