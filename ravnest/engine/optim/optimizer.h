#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/engine/interpreter.h"
#include "ravnest/engine/optim/options.h"

namespace ravnest::engine {

namespace optim {
class Algorithm;
}

// One parameter's part in a step. `result` gets the new value: the value itself (in
// place), or another tensor of the same shape and dtype where the old version is still
// in use. An undefined gradient leaves the parameter and its state as they are, and
// the result is the value.
struct ParameterUpdate {
  const std::string& name;
  const at::Tensor& value;
  const at::Tensor& gradient;
  at::Tensor& result;
};

struct StepOptions {
  double gradient_scale = 1.0;     // of every gradient: 1 / passes accumulated
  std::optional<double> max_norm;  // clips the norm of all scaled gradients of the call together
  double rate_factor = 1.0;        // of the rate, for this step: see warmup_factor
};

// What is kept for one parameter: tensors of its shape ("exp_avg") and numbers ("step").
struct ParameterState {
  std::map<std::string, at::Tensor, std::less<>> tensors;
  std::map<std::string, double, std::less<>> numbers;
};

// By "exp_avg/<parameter>", "step/<parameter>", …; numbers are float64 tensors without
// dimensions.
using OptimizerState = std::map<std::string, at::Tensor>;

// An optimizer of torch.optim, native and fused: a step is one pass over each
// parameter's memory. sgd, adam, adamw, nadam, rmsprop and adagrad, with torch's options,
// defaults and results. Owned and called by one thread; torch's thread count decides how
// many work on a parameter. Bad input throws std::invalid_argument and changes nothing.
class Optimizer {
 public:
  Optimizer(std::string_view name, const OptionMap& options);
  ~Optimizer();
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;

  static std::vector<std::string> known_names();

  void step(std::span<const ParameterUpdate> updates, const StepOptions& options = {});

  // Weight prediction: writes value − rate · delay · direction to `result`, for the
  // direction in which the averages kept point (sgd and rmsprop with momentum, adam,
  // adamw, nadam). Where there is none, the result is the value. Changes no state.
  void predict(const std::string& parameter, const at::Tensor& value, double delay,
               at::Tensor& result) const;

  const std::string& name() const { return name_; }
  double rate() const;
  void set_rate(double rate);
  // The momentum or first beta, which some schedulers move; none for adagrad.
  std::optional<double> momentum() const;
  void set_momentum(double momentum);

  // Shares the tensors with the optimizer: copy what must outlive the next step.
  OptimizerState state() const;
  // Takes the state of some or all of these parameters, copied to their device; others
  // start anew. Refuses names, shapes and gaps that do not fit.
  void load_state(const OptimizerState& state, const WeightMap& parameters);

 private:
  void update(const ParameterUpdate& update, double scale, double rate);

  std::string name_;
  std::unique_ptr<optim::Algorithm> algorithm_;
  std::map<std::string, ParameterState> states_;
};

}  // namespace ravnest::engine
