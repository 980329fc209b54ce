#include "python_rule.h"

#include "optim.h"
#include "python_call.h"

namespace py = pybind11;

namespace ravnest::python {

namespace {

using Tensors = std::map<std::string, at::Tensor>;

Tensors trained(const engine::WeightMap& weights) {
  Tensors found;
  for (const auto& [name, tensor] : weights) {
    if (tensor.requires_grad()) {
      found.emplace(name, tensor.detach());
    }
  }
  return found;
}

// An optimizer of Python. It changes the newest version's memory in place, after what is still in
// use elsewhere was copied.
class PythonRule : public provider::UpdateRule {
 public:
  explicit PythonRule(py::object rule)
      : rule_(share(std::move(rule))), follows_loss_(rule_->attr("follows_loss").cast<bool>()) {}

  void apply(const engine::GradientStep& step, engine::WeightVersions& weights) override {
    weights.update(step.names, [](const std::string&, const at::Tensor& value, at::Tensor& result) {
      if (!result.is_same(value)) {
        result.copy_(value);
      }
    });
    Tensors gradients = step.gradients;
    if (step.passes > 1) {
      const at::NoGradGuard no_grad;
      for (auto& [name, gradient] : gradients) {
        gradient = gradient / static_cast<double>(step.passes);
      }
    }
    const Tensors values = trained(weights.current()->weights);
    call_python([&] { rule_->attr("step")(values, gradients, step.delay, step.is_rest); });
  }

  void note_loss(double loss) override {
    if (follows_loss_) {
      call_python([&] { rule_->attr("note_loss")(loss); });
    }
  }

  void start_epoch() override {
    call_python([&] { rule_->attr("start_epoch")(); });
  }

  double rate() const override {
    return call_python([&] { return rule_->attr("rate")().cast<double>(); });
  }

  provider::RuleState state() const override {
    return call_python([&] {
      const auto state = rule_->attr("state")().cast<py::tuple>();
      return provider::RuleState{.tensors = state[0].cast<Tensors>(),
                                 .texts = state[1].cast<std::map<std::string, std::string>>()};
    });
  }

  void load_state(const provider::RuleState& state, const engine::WeightMap& parameters) override {
    const Tensors values = trained(parameters);
    call_python([&] { rule_->attr("load_state")(state.tensors, state.texts, values); });
  }

 private:
  Shared rule_;
  const bool follows_loss_;
};

template <typename Value>
std::optional<Value> find(const py::dict& given, const char* key) {
  const py::object value = given.attr("get")(key);
  return value.is_none() ? std::nullopt : std::optional(value.cast<Value>());
}

}  // namespace

std::unique_ptr<provider::UpdateRule> make_rule(const py::object& made) {
  if (!py::isinstance<py::dict>(made)) {
    return std::make_unique<PythonRule>(made);
  }
  const auto given = made.cast<py::dict>();
  return provider::make_native_rule(
      {.optimizer = given["optimizer"].cast<std::string>(),
       .optimizer_options = to_options(given["optimizer_options"].cast<py::dict>()),
       .scheduler = find<std::string>(given, "scheduler"),
       .scheduler_options = to_options(given["scheduler_options"].cast<py::dict>()),
       .step_on_epoch = given["step_on_epoch"].cast<bool>(),
       .max_norm = find<double>(given, "max_norm"),
       .warmup_updates = given["warmup_updates"].cast<std::int64_t>()});
}

}  // namespace ravnest::python
