#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/nodes.h"

namespace ravnest::engine {

namespace {

using torch::jit::Node;

void call_function(ScriptEvaluator& evaluator, const Node& node) {
  ScriptEvaluator::Values arguments;
  for (std::size_t i = 1; i < node.inputs().size(); ++i) {
    arguments.push_back(evaluator.value(node.input(i)));
  }
  auto* function = node.input(0)->type()->expectRef<c10::FunctionType>().function();
  evaluator.bind(node.output(), evaluator.call(*function, std::move(arguments)));
}

ScriptObject& object_of(ScriptEvaluator& evaluator, const Node& node) {
  ScriptObject* object = evaluator.value(node.input(0)).object();
  if (object == nullptr) {
    evaluator.refuse("a module that is known", "one that data chooses");
  }
  return *object;
}

void call_method(ScriptEvaluator& evaluator, const Node& node) {
  const std::string& name = node.s(c10::attr::name);
  torch::jit::Function* method = object_of(evaluator, node).type->findMethod(name);
  if (method == nullptr) {
    evaluator.refuse("methods written in TorchScript", "a call of " + name);
  }
  evaluator.bind(node.output(), evaluator.call(*method, evaluator.inputs(node)));
}

void get_attribute(ScriptEvaluator& evaluator, const Node& node) {
  evaluator.bind(node.output(),
                 evaluator.objects().read(object_of(evaluator, node), node.s(c10::attr::name)));
}

void set_attribute(ScriptEvaluator& evaluator, const Node& node) {
  const std::string& name = node.s(c10::attr::name);
  const std::string refusal =
      evaluator.objects().assign(object_of(evaluator, node), name, evaluator.value(node.input(1)));
  if (!refusal.empty()) {
    evaluator.refuse("a forward that leaves its module alone",
                     concat("an assignment to self.", name, ": ", refusal));
  }
}

std::string class_name(const c10::ClassType& type) {
  return type.name() ? type.name()->qualifiedName() : "a class without a name";
}

void create_object(ScriptEvaluator& evaluator, const Node& node) {
  const auto type = node.output()->type()->cast<c10::ClassType>();
  if (!type || class_name(*type).starts_with("__torch__.torch.classes")) {
    evaluator.refuse("classes written in TorchScript", node.output()->type()->repr_str());
  }
  evaluator.bind(node.output(), {std::make_shared<ScriptObject>(ScriptObject{
                                    .type = type, .object = {}, .path = "", .attributes = {}})});
}

enum class Context { kNoGrad, kNothing };

Context context_of(ScriptEvaluator& evaluator, const Node& node) {
  const std::string name = class_name(*object_of(evaluator, node).type);
  if (name.ends_with("autograd.grad_mode.no_grad")) {
    return Context::kNoGrad;
  }
  if (name.ends_with("autograd.profiler.record_function")) {
    return Context::kNothing;
  }
  evaluator.refuse("no context but torch.no_grad", name);
}

void enter(ScriptEvaluator& evaluator, const Node& node) {
  evaluator.no_grad_depth += context_of(evaluator, node) == Context::kNoGrad ? 1 : 0;
  evaluator.bind_all(node, known({}));
}

void leave(ScriptEvaluator& evaluator, const Node& node) {
  evaluator.no_grad_depth -= context_of(evaluator, node) == Context::kNoGrad ? 1 : 0;
  evaluator.bind_all(node, known({}));
}

}  // namespace

void add_object_nodes(NodeHandlers& handlers) {
  handlers["prim::CallFunction"] = call_function;
  handlers["prim::CallMethod"] = call_method;
  handlers["prim::GetAttr"] = get_attribute;
  handlers["prim::SetAttr"] = set_attribute;
  handlers["prim::CreateObject"] = create_object;
  handlers["prim::Enter"] = enter;
  handlers["prim::Exit"] = leave;
}

}  // namespace ravnest::engine
