#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ravnest/engine/optim/options.h"
#include "ravnest/engine/stage/stage.h"

namespace ravnest::provider {

// What a rule keeps between updates: tensors by name and a few texts, as a checkpoint has them.
struct RuleState {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> texts;
};

// How gradients become new weights: an optimizer and what moves its rate. Called by the stage's
// loop thread alone.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // Of a pass that the next update takes in.
  virtual void note_loss(double) {}
  virtual void apply(const engine::GradientStep& step, engine::WeightVersions& weights) = 0;
  // The data's next epoch begins.
  virtual void start_epoch() = 0;
  // So many updates were made elsewhere before this rule's first.
  virtual void skip_updates(std::int64_t) {}
  virtual double rate() const = 0;
  // Empty where the rule cannot tell where weights will go.
  virtual engine::PredictWeight predictor() { return nullptr; }
  virtual RuleState state() const = 0;
  virtual void load_state(const RuleState& state, const engine::WeightMap& parameters) = 0;
};

struct RuleOptions {
  std::string optimizer = "sgd";  // engine::Optimizer::known_names
  engine::OptionMap optimizer_options;
  std::optional<std::string> scheduler;  // engine::Scheduler::known_names
  engine::OptionMap scheduler_options;
  bool step_on_epoch = true;        // the scheduler; else at every update
  std::optional<double> max_norm;   // clips the gradients of the stage
  std::int64_t warmup_updates = 0;  // PipeMare's caution with late gradients, for so long
};

// An optimizer of ours. Throws std::invalid_argument for names or options that are not known.
std::unique_ptr<UpdateRule> make_native_rule(const RuleOptions& options);

}  // namespace ravnest::provider
