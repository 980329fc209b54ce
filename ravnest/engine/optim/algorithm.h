#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/engine/optim/optimizer.h"
#include "ravnest/engine/optim/options.h"

namespace ravnest::engine::optim {

// What is kept for a parameter, by PyTorch's names.
inline constexpr const char* kAverage = "exp_avg";
inline constexpr const char* kSquare = "exp_avg_sq";
inline constexpr const char* kBuffer = "momentum_buffer";

// One parameter's step, checked: tensors of one shape.
struct Step {
  const at::Tensor& value;
  const at::Tensor& gradient;
  const at::Tensor& result;
  double scale = 1.0;  // of the gradient
  double rate = 0.0;
};

struct Prediction {
  const at::Tensor& value;
  const at::Tensor& result;
  double distance = 0.0;  // rate · delay
};

// How one optimizer updates a parameter, with its options. Holds no state of its own
// but what schedulers move: rate and momentum.
class Algorithm {
 public:
  explicit Algorithm(double rate) : rate_(rate) {}
  virtual ~Algorithm() = default;
  Algorithm(const Algorithm&) = delete;
  Algorithm& operator=(const Algorithm&) = delete;

  // Names of what is kept for a parameter once it had a gradient.
  virtual std::vector<std::string> tensor_names() const = 0;
  virtual std::vector<std::string> number_names() const { return {}; }

  virtual void update(const Step& step, ParameterState& state) const = 0;
  // False where there is no direction to go; then nothing was written.
  virtual bool predict(const Prediction& prediction, const ParameterState& state) const = 0;

  // Null where there is none.
  virtual double* momentum() { return nullptr; }
  double& rate() { return rate_; }

 private:
  double rate_;
};

std::unique_ptr<Algorithm> make_sgd(OptionReader& options);
std::unique_ptr<Algorithm> make_adam(OptionReader& options);
std::unique_ptr<Algorithm> make_adamw(OptionReader& options);
std::unique_ptr<Algorithm> make_nadam(OptionReader& options);
std::unique_ptr<Algorithm> make_rmsprop(OptionReader& options);
std::unique_ptr<Algorithm> make_adagrad(OptionReader& options);

// The tensor of that name, made as a copy of `value`'s layout, filled, where it is missing.
at::Tensor kept_tensor(ParameterState& state, std::string_view name, const at::Tensor& value,
                       double fill = 0.0);
// Adds one to "step" and gives it.
double count_step(ParameterState& state);

}  // namespace ravnest::engine::optim
