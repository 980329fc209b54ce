#include "ravnest/provider/update_rule.h"

#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/engine/optim/compensation.h"
#include "ravnest/engine/optim/optimizer.h"
#include "ravnest/engine/optim/scheduler.h"

namespace ravnest::provider {

namespace {

class NativeRule : public UpdateRule {
 public:
  explicit NativeRule(const RuleOptions& options)
      : options_(options), optimizer_(options.optimizer, options.optimizer_options) {
    if (options.scheduler) {
      scheduler_.emplace(*options.scheduler, options.scheduler_options, optimizer_.rate());
      follow_schedule();
    }
  }

  void apply(const engine::GradientStep& step, engine::WeightVersions& weights) override {
    std::vector<at::Tensor> values;
    std::vector<at::Tensor> results;
    weights.update(step.names,
                   [&](const std::string&, const at::Tensor& value, at::Tensor& result) {
                     values.push_back(value);
                     results.push_back(result);
                   });
    std::vector<engine::ParameterUpdate> updates;
    for (std::size_t i = 0; i < step.names.size(); ++i) {
      const std::string& name = step.names[i];
      updates.push_back({.name = name,
                         .value = values[i],
                         .gradient = step.gradients.at(name),
                         .result = results[i]});
    }
    optimizer_.step(updates,
                    {.gradient_scale = 1.0 / static_cast<double>(step.passes),
                     .max_norm = options_.max_norm,
                     .rate_factor = engine::warmup_factor(static_cast<double>(step.delay), updates_,
                                                          options_.warmup_updates)});
    ++updates_;
    if (scheduler_ && !options_.step_on_epoch && !step.is_rest) {
      step_schedule();
    }
  }

  void start_epoch() override {
    if (scheduler_ && options_.step_on_epoch) {
      step_schedule();
    }
  }

  void skip_updates(std::int64_t count) override {
    updates_ = count;
    for (std::int64_t i = 0; scheduler_ && !options_.step_on_epoch && i < count; ++i) {
      step_schedule();
    }
  }

  double rate() const override { return optimizer_.rate(); }

  engine::PredictWeight predictor() override {
    return [this](const std::string& name, const at::Tensor& value, double delay,
                  at::Tensor& result) { optimizer_.predict(name, value, delay, result); };
  }

  RuleState state() const override {
    RuleState state{.tensors = optimizer_.state()};
    state.texts["optimizer"] = optimizer_.name();
    state.texts["updates"] = std::to_string(updates_);
    state.texts["schedule"] = std::to_string(scheduler_ ? scheduler_->state() : 0);
    return state;
  }

  void load_state(const RuleState& state, const engine::WeightMap& parameters) override {
    if (const auto found = state.texts.find("optimizer");
        found == state.texts.end() || found->second != optimizer_.name()) {
      throw_invalid("[provider] expected a checkpoint of ", optimizer_.name(),
                    ", got one of another optimizer (Node(resume=False) begins anew).");
    }
    optimizer_.load_state(state.tensors, parameters);
    updates_ = std::stoll(state.texts.at("updates"));
    if (scheduler_) {
      scheduler_->load_state(std::stoll(state.texts.at("schedule")));
      follow_schedule();
    }
  }

 private:
  void step_schedule() {
    scheduler_->step();
    follow_schedule();
  }

  void follow_schedule() {
    optimizer_.set_rate(scheduler_->rate());
    if (scheduler_->momentum() && optimizer_.momentum()) {
      optimizer_.set_momentum(*scheduler_->momentum());
    }
  }

  RuleOptions options_;
  engine::Optimizer optimizer_;
  std::optional<engine::Scheduler> scheduler_;
  std::int64_t updates_ = 0;
};

}  // namespace

std::unique_ptr<UpdateRule> make_native_rule(const RuleOptions& options) {
  return std::make_unique<NativeRule>(options);
}

}  // namespace ravnest::provider
