#include <cmath>

#include "ravnest/engine/optim/algorithm.h"
#include "ravnest/engine/optim/loops.h"
#include "ravnest/engine/optim/rules.h"

namespace ravnest::engine::optim {

namespace {

constexpr const char* kLargest = "max_exp_avg_sq";

struct AdamOptions {
  double rate = 0.0;
  std::pair<double, double> betas;
  double eps = 0.0;
  double decay = 0.0;
  bool decoupled = false;
  bool amsgrad = false;
  bool maximize = false;
};

// Adam and AdamW.
class Adam : public Algorithm {
 public:
  explicit Adam(const AdamOptions& options) : Algorithm(options.rate), options_(options) {}

  std::vector<std::string> tensor_names() const override {
    std::vector<std::string> names = {kAverage, kSquare};
    if (options_.amsgrad) {
      names.emplace_back(kLargest);
    }
    return names;
  }
  std::vector<std::string> number_names() const override { return {"step"}; }

  void update(const Step& step, ParameterState& state) const override {
    const double count = count_step(state);
    const at::Tensor average = kept_tensor(state, kAverage, step.value);
    const at::Tensor square = kept_tensor(state, kSquare, step.value);
    if (options_.amsgrad) {
      apply(make_rule<true>(step, count), step.value, step.result, {step.gradient},
            {average, square, kept_tensor(state, kLargest, step.value)});
    } else {
      apply(make_rule<false>(step, count), step.value, step.result, {step.gradient},
            {average, square});
    }
  }

  bool predict(const Prediction& prediction, const ParameterState& state) const override {
    const double count = state.numbers.at("step");
    AdaptiveDriftRule rule;
    rule.shrink = options_.decoupled ? 1.0 - prediction.distance * options_.decay : 1.0;
    rule.correction = root_correction(count);
    rule.eps = options_.eps;
    rule.size = prediction.distance / (1.0 - std::pow(options_.betas.first, count));
    apply(rule, prediction.value, prediction.result,
          {state.tensors.at(kAverage), state.tensors.at(options_.amsgrad ? kLargest : kSquare)},
          {});
    return true;
  }

  double* momentum() override { return &options_.betas.first; }

 private:
  double root_correction(double count) const {
    return 1.0 / std::sqrt(1.0 - std::pow(options_.betas.second, count));
  }

  template <bool Amsgrad>
  AdamRule<Amsgrad> make_rule(const Step& step, double count) const {
    AdamRule<Amsgrad> rule;
    rule.scale = options_.maximize ? -step.scale : step.scale;
    rule.decay = options_.decoupled ? 0.0 : options_.decay;
    rule.shrink = options_.decoupled ? 1.0 - step.rate * options_.decay : 1.0;
    rule.beta1 = options_.betas.first;
    rule.beta2 = options_.betas.second;
    rule.correction = root_correction(count);
    rule.eps = options_.eps;
    rule.size = step.rate / (1.0 - std::pow(options_.betas.first, count));
    return rule;
  }

  AdamOptions options_;
};

std::unique_ptr<Algorithm> make(OptionReader& options, bool decoupled) {
  AdamOptions read;
  read.rate = options.number("lr", 1e-3, kNotNegative);
  read.betas = options.pair("betas", {0.9, 0.999}, kBelowOne);
  read.eps = options.number("eps", 1e-8, kNotNegative);
  read.decay = options.number("weight_decay", decoupled ? 1e-2 : 0.0, kNotNegative);
  read.decoupled = decoupled;
  read.amsgrad = options.flag("amsgrad", false);
  read.maximize = options.flag("maximize", false);
  return std::make_unique<Adam>(read);
}

}  // namespace

std::unique_ptr<Algorithm> make_adam(OptionReader& options) { return make(options, false); }

std::unique_ptr<Algorithm> make_adamw(OptionReader& options) { return make(options, true); }

}  // namespace ravnest::engine::optim
