#include "ravnest/engine/optim/algorithm.h"
#include "ravnest/engine/optim/loops.h"
#include "ravnest/engine/optim/rules.h"

namespace ravnest::engine::optim {

namespace {

struct AdagradOptions {
  double rate = 0.0;
  double rate_decay = 0.0;
  double decay = 0.0;
  double initial_sum = 0.0;
  double eps = 0.0;
  bool maximize = false;
};

class Adagrad : public Algorithm {
 public:
  explicit Adagrad(const AdagradOptions& options) : Algorithm(options.rate), options_(options) {}

  std::vector<std::string> tensor_names() const override { return {"sum"}; }
  std::vector<std::string> number_names() const override { return {"step"}; }

  void update(const Step& step, ParameterState& state) const override {
    const double count = count_step(state);
    AdagradRule rule;
    rule.scale = options_.maximize ? -step.scale : step.scale;
    rule.decay = options_.decay;
    rule.rate = step.rate / (1.0 + (count - 1.0) * options_.rate_decay);
    rule.eps = options_.eps;
    apply(rule, step.value, step.result, {step.gradient},
          {kept_tensor(state, "sum", step.value, options_.initial_sum)});
  }

  bool predict(const Prediction&, const ParameterState&) const override { return false; }

 private:
  AdagradOptions options_;
};

}  // namespace

std::unique_ptr<Algorithm> make_adagrad(OptionReader& options) {
  AdagradOptions read;
  read.rate = options.number("lr", 1e-2, kNotNegative);
  read.rate_decay = options.number("lr_decay", 0.0, kNotNegative);
  read.decay = options.number("weight_decay", 0.0, kNotNegative);
  read.initial_sum = options.number("initial_accumulator_value", 0.0, kNotNegative);
  read.eps = options.number("eps", 1e-10, kNotNegative);
  read.maximize = options.flag("maximize", false);
  return std::make_unique<Adagrad>(read);
}

}  // namespace ravnest::engine::optim
