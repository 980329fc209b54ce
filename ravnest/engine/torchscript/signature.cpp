#include "ravnest/engine/torchscript/signature.h"

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/numbers.h"
#include "ravnest/engine/torchscript/tree_spec.h"

namespace ravnest::engine {

namespace {

using c10::TypeKind;

// The first tensor in a value, in order.
const at::Tensor* find_tensor(const c10::IValue& value, at::Tensor& found) {
  if (value.isTensor()) {
    found = value.toTensor();
    return &found;
  }
  if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (find_tensor(item, found) != nullptr) {
        return &found;
      }
    }
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) {
      if (find_tensor(item, found) != nullptr) {
        return &found;
      }
    }
  } else if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) {
      if (find_tensor(item.value(), found) != nullptr) {
        return &found;
      }
    }
  }
  return nullptr;
}

std::string key_text(const c10::IValue& key) {
  return key.isString() ? key.toStringRef() : concat(key);
}

std::string key_json(const c10::IValue& key) {
  return key.isString() ? TreeSpec::quote_json(key.toStringRef()) : concat(key);
}

// Makes graph inputs of examples, leaf by leaf.
class ExampleBinder {
 public:
  ExampleBinder(ScriptGraph& graph, std::int64_t batch, BatchScope scope)
      : graph_(graph), batch_(batch), scope_(scope) {}

  ScriptValue bind(const c10::IValue& example, const std::string& name, TreeSpec& spec) {
    if (example.isList()) {
      return bind_list(example, name, spec);
    }
    if (example.isTuple()) {
      std::vector<TreeSpec> specs;
      const auto& elements = example.toTupleRef().elements();
      auto items =
          bind_items(std::vector<c10::IValue>(elements.begin(), elements.end()), name, specs);
      spec = TreeSpec::tuple(specs);
      return make_tuple(example.type(), std::move(items));
    }
    if (example.isGenericDict()) {
      return bind_dict(example, name, spec);
    }
    spec = TreeSpec::leaf();
    if (example.isTensor()) {
      return graph_.add_tensor_input(name, trials_of(example.toTensor()));
    }
    graph_.add_literal(name, graph_.to_argument(known(example), *c10::AnyType::get(),
                                                {.module = "", .source = "", .where = name}));
    return known(example);
  }

 private:
  std::vector<ScriptValue> bind_items(const std::vector<c10::IValue>& examples,
                                      const std::string& name, std::vector<TreeSpec>& specs) {
    std::vector<ScriptValue> items;
    for (std::size_t i = 0; i < examples.size(); ++i) {
      TreeSpec spec;
      items.push_back(bind(examples[i], concat(name, "_", i), spec));
      specs.push_back(spec);
    }
    return items;
  }

  ScriptValue bind_list(const c10::IValue& example, const std::string& name, TreeSpec& spec) {
    std::vector<TreeSpec> specs;
    const auto examples = example.toListRef();
    auto items = bind_items(examples.vec(), name, specs);
    spec = TreeSpec::list(specs);
    return make_list(example.toList().elementType(), std::move(items));
  }

  ScriptValue bind_dict(const c10::IValue& example, const std::string& name, TreeSpec& spec) {
    const auto examples = example.toGenericDict();
    ScriptDict made{
        .key_type = examples.keyType(), .value_type = examples.valueType(), .items = {}};
    std::vector<std::string> keys;
    std::vector<TreeSpec> specs;
    for (const auto& item : examples) {
      TreeSpec child;
      made.items.emplace_back(item.key(),
                              bind(item.value(), concat(name, "_", key_text(item.key())), child));
      keys.push_back(key_json(item.key()));
      specs.push_back(child);
    }
    spec = TreeSpec::dict(keys, specs);
    return {std::make_shared<ScriptDict>(std::move(made))};
  }

  ScriptProbes::Trials trials_of(const at::Tensor& tensor) {
    const bool in_scope =
        scope_ == BatchScope::kAllTensors || (scope_ == BatchScope::kFirstTensor && !met_tensor_);
    const bool varies = in_scope && tensor.dim() > 0 && tensor.size(0) == batch_;
    met_tensor_ = true;
    ScriptProbes::Trials trials;
    for (std::size_t i = 0; i < graph_.probes().count(); ++i) {
      trials.emplace_back(varies ? without_data(tensor, graph_.probes().batch(i))
                                 : without_data(tensor));
    }
    return trials;
  }

  ScriptGraph& graph_;
  std::int64_t batch_;
  BatchScope scope_;
  bool met_tensor_ = false;
};

[[noreturn]] void refuse(const std::string& name, const std::string& expected,
                         const std::string& got) {
  throw_invalid("[torchscript] argument '", name, "' of forward: expected ", expected, ", got ",
                got, ".");
}

// An argument without an example and without a default, by its declared type alone.
ScriptValue bind_declared(ScriptGraph& graph, const c10::TypePtr& type, const std::string& name,
                          TreeSpec& spec) {
  spec = TreeSpec::leaf();
  switch (type->kind()) {
    case TypeKind::TensorType:
      return graph.add_tensor_input(name, {});
    case TypeKind::OptionalType:
      return bind_declared(graph, type->containedType(0), name, spec);
    case TypeKind::IntType:
      return graph.add_number_input(name, graph::ValueKind::kInt);
    case TypeKind::FloatType:
      return graph.add_number_input(name, graph::ValueKind::kFloat);
    case TypeKind::TupleType: {
      std::vector<ScriptValue> items;
      std::vector<TreeSpec> specs;
      for (const c10::TypePtr& element : type->containedTypes()) {
        TreeSpec child;
        items.push_back(bind_declared(graph, element, concat(name, "_", items.size()), child));
        specs.push_back(child);
      }
      spec = TreeSpec::tuple(specs);
      return make_tuple(type, std::move(items));
    }
    default:
      refuse(name, "a tensor, a number or a tuple of them",
             type->str() + ", which needs an example");
  }
}

const c10::IValue* find_keyword(const ImportOptions& options, const std::string& name) {
  const auto found = std::ranges::find_if(options.example_kwargs,
                                          [&name](const auto& pair) { return pair.first == name; });
  return found == options.example_kwargs.end() ? nullptr : &found->second;
}

// The structure of a call: a tuple of positional arguments and a dict of the others.
class CallSpec {
 public:
  void add_positional(const std::string& name, const TreeSpec& spec) {
    names_ += (names_.empty() ? "" : ",") + name;
    positional_.push_back(spec);
  }

  void add_keyword(const std::string& name, const TreeSpec& spec) {
    keys_.push_back(TreeSpec::quote_json(name));
    keywords_.push_back(spec);
  }

  std::string to_json() const {
    return TreeSpec::tuple({TreeSpec::tuple(positional_), TreeSpec::dict(keys_, keywords_)})
        .to_json();
  }
  const std::string& names() const { return names_; }

 private:
  std::string names_;
  std::vector<TreeSpec> positional_;
  std::vector<std::string> keys_;
  std::vector<TreeSpec> keywords_;
};

// The checks that calling forward would make.
void check_examples(const c10::FunctionSchema& schema, const ImportOptions& options) {
  const std::size_t accepted = schema.arguments().size() - 1;
  if (options.example_args.size() > accepted) {
    throw_invalid("[torchscript] expected at most ", accepted, " example inputs, got ",
                  options.example_args.size(), ".");
  }
  for (const auto& [name, value] : options.example_kwargs) {
    const auto index = schema.argumentIndexWithName(name);
    if (!index || static_cast<std::size_t>(*index) <= options.example_args.size()) {
      refuse(name, "an argument that forward takes by this name",
             index ? "it twice" : "an unknown one");
    }
  }
}

// The example as a value of the declared type: Python's containers do not say what they hold.
c10::IValue converted(const c10::IValue& example, const c10::TypePtr& type) {
  if (type->kind() == TypeKind::OptionalType && !example.isNone()) {
    return converted(example, type->containedType(0));
  }
  if (type->kind() == TypeKind::FloatType && example.isInt()) {
    return static_cast<double>(example.toInt());
  }
  if (type->kind() == TypeKind::ListType && example.isList()) {
    c10::impl::GenericList made(type->containedType(0));
    for (const c10::IValue& item : example.toListRef()) {
      made.push_back(converted(item, type->containedType(0)));
    }
    return made;
  }
  if (type->kind() == TypeKind::DictType && example.isGenericDict()) {
    c10::impl::GenericDict made(type->containedType(0), type->containedType(1));
    for (const auto& item : example.toGenericDict()) {
      made.insert(item.key(), converted(item.value(), type->containedType(1)));
    }
    return made;
  }
  if (type->kind() == TypeKind::TupleType && example.isTuple() &&
      example.toTupleRef().elements().size() == type->containedTypes().size()) {
    std::vector<c10::IValue> made;
    for (const c10::IValue& item : example.toTupleRef().elements()) {
      made.push_back(converted(item, type->containedType(made.size())));
    }
    return c10::ivalue::Tuple::create(std::move(made));
  }
  return example;
}

c10::IValue fitting(const c10::IValue& example, const c10::Argument& argument) {
  const c10::IValue value = converted(example, argument.type());
  if (!value.type()->isSubtypeOf(*argument.type())) {
    refuse(argument.name(), argument.type()->repr_str(), example.type()->repr_str());
  }
  return value;
}

}  // namespace

std::int64_t example_batch(const ImportOptions& options) {
  std::vector<c10::IValue> examples = options.example_args;
  for (const auto& [name, value] : options.example_kwargs) {
    examples.push_back(value);
  }
  at::Tensor found;
  const auto has_tensor = [&found](const c10::IValue& example) {
    return find_tensor(example, found) != nullptr;
  };
  return std::ranges::any_of(examples, has_tensor) && found.dim() > 0 ? found.size(0) : 0;
}

BoundInputs bind_inputs(ScriptEvaluator& evaluator, const c10::FunctionSchema& schema,
                        const ImportOptions& options, BatchScope scope) {
  const bool has_examples = !options.example_args.empty() || !options.example_kwargs.empty();
  check_examples(schema, options);
  ExampleBinder examples(evaluator.graph(), example_batch(options), scope);
  BoundInputs bound;
  CallSpec call;
  for (std::size_t i = 1; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    TreeSpec spec;
    if (i <= options.example_args.size()) {
      const c10::IValue value = fitting(options.example_args[i - 1], argument);
      bound.arguments.push_back(examples.bind(value, argument.name(), spec));
      call.add_positional(argument.name(), spec);
    } else if (const c10::IValue* example = find_keyword(options, argument.name())) {
      bound.arguments.push_back(examples.bind(fitting(*example, argument), argument.name(), spec));
      call.add_keyword(argument.name(), spec);
    } else if (argument.default_value()) {
      bound.arguments.push_back(evaluator.lift(*argument.default_value(), argument.name()));
    } else if (has_examples) {
      refuse(argument.name(), "an example of it", "none");
    } else {
      bound.arguments.push_back(
          bind_declared(evaluator.graph(), argument.type(), argument.name(), spec));
      argument.kwarg_only() ? call.add_keyword(argument.name(), spec)
                            : call.add_positional(argument.name(), spec);
    }
  }
  bound.in_spec = call.to_json();
  bound.names = call.names();
  return bound;
}

namespace {

TreeSpec bind_output(ScriptEvaluator& evaluator, const ScriptValue& value) {
  std::vector<TreeSpec> specs;
  if (const ScriptTuple* tuple = value.tuple()) {
    for (const ScriptValue& item : tuple->items) {
      specs.push_back(bind_output(evaluator, item));
    }
    return TreeSpec::tuple(specs);
  }
  if (const ScriptList* list = value.list()) {
    for (const ScriptValue& item : list->items) {
      specs.push_back(bind_output(evaluator, item));
    }
    return TreeSpec::list(specs);
  }
  if (const ScriptDict* dict = value.dict()) {
    std::vector<std::string> keys;
    for (const auto& [key, item] : dict->items) {
      keys.push_back(key_json(key));
      specs.push_back(bind_output(evaluator, item));
    }
    return TreeSpec::dict(keys, specs);
  }
  const Origin origin{.module = "", .source = "", .where = "the result of forward"};
  evaluator.graph().add_output(with_tensors(evaluator, value), origin);
  return TreeSpec::leaf();
}

}  // namespace

std::string bind_outputs(ScriptEvaluator& evaluator, const ScriptValue& result) {
  return bind_output(evaluator, result).to_json();
}

}  // namespace ravnest::engine
