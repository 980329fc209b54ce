#include <cmath>

#include "ravnest/engine/optim/algorithm.h"
#include "ravnest/engine/optim/loops.h"
#include "ravnest/engine/optim/rules.h"

namespace ravnest::engine::optim {

namespace {

constexpr const char* kProduct = "mu_product";

struct NadamOptions {
  double rate = 0.0;
  std::pair<double, double> betas;
  double eps = 0.0;
  double decay = 0.0;
  double momentum_decay = 0.0;
  bool decoupled = false;
  bool maximize = false;
};

class Nadam : public Algorithm {
 public:
  explicit Nadam(const NadamOptions& options) : Algorithm(options.rate), options_(options) {}

  std::vector<std::string> tensor_names() const override { return {kAverage, kSquare}; }
  std::vector<std::string> number_names() const override { return {"step", kProduct}; }

  void update(const Step& step, ParameterState& state) const override {
    const double count = count_step(state);
    double& product = state.numbers.try_emplace(kProduct, 1.0).first->second;
    product *= momentum_at(count);
    NadamRule rule;
    rule.scale = options_.maximize ? -step.scale : step.scale;
    rule.decay = options_.decoupled ? 0.0 : options_.decay;
    rule.shrink = shrink(step.rate);
    rule.beta1 = options_.betas.first;
    rule.beta2 = options_.betas.second;
    rule.correction = root_correction(count);
    rule.eps = options_.eps;
    rule.gradient_size = step.rate * gradient_share(count, product);
    rule.average_size = step.rate * average_share(count, product);
    apply(rule, step.value, step.result, {step.gradient},
          {kept_tensor(state, kAverage, step.value), kept_tensor(state, kSquare, step.value)});
  }

  // The gradient to come is taken to be the average of those seen.
  bool predict(const Prediction& prediction, const ParameterState& state) const override {
    const double count = state.numbers.at("step");
    const double product = state.numbers.at(kProduct);
    AdaptiveDriftRule rule;
    rule.shrink = shrink(prediction.distance);
    rule.correction = root_correction(count);
    rule.eps = options_.eps;
    rule.size =
        prediction.distance * (gradient_share(count, product) + average_share(count, product));
    apply(rule, prediction.value, prediction.result,
          {state.tensors.at(kAverage), state.tensors.at(kSquare)}, {});
    return true;
  }

  double* momentum() override { return &options_.betas.first; }

 private:
  double momentum_at(double count) const {
    return options_.betas.first * (1.0 - 0.5 * std::pow(0.96, count * options_.momentum_decay));
  }
  double gradient_share(double count, double product) const {
    return (1.0 - momentum_at(count)) / (1.0 - product);
  }
  double average_share(double count, double product) const {
    const double next = momentum_at(count + 1.0);
    return next / (1.0 - product * next);
  }
  double root_correction(double count) const {
    return 1.0 / std::sqrt(1.0 - std::pow(options_.betas.second, count));
  }
  double shrink(double rate) const {
    return options_.decoupled ? 1.0 - rate * options_.decay : 1.0;
  }

  NadamOptions options_;
};

}  // namespace

std::unique_ptr<Algorithm> make_nadam(OptionReader& options) {
  NadamOptions read;
  read.rate = options.number("lr", 2e-3, kNotNegative);
  read.betas = options.pair("betas", {0.9, 0.999}, kBelowOne);
  read.eps = options.number("eps", 1e-8, kNotNegative);
  read.decay = options.number("weight_decay", 0.0, kNotNegative);
  read.momentum_decay = options.number("momentum_decay", 4e-3, kNotNegative);
  read.decoupled = options.flag("decoupled_weight_decay", false);
  read.maximize = options.flag("maximize", false);
  return std::make_unique<Nadam>(read);
}

}  // namespace ravnest::engine::optim
