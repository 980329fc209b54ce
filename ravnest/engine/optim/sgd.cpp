#include "ravnest/base/error.h"
#include "ravnest/engine/optim/algorithm.h"
#include "ravnest/engine/optim/loops.h"
#include "ravnest/engine/optim/rules.h"

namespace ravnest::engine::optim {

namespace {

struct SgdOptions {
  double rate = 0.0;
  double momentum = 0.0;
  double dampening = 0.0;
  double decay = 0.0;
  bool nesterov = false;
  bool maximize = false;
};

class Sgd : public Algorithm {
 public:
  explicit Sgd(const SgdOptions& options) : Algorithm(options.rate), options_(options) {}

  std::vector<std::string> tensor_names() const override {
    return options_.momentum == 0.0 ? std::vector<std::string>()
                                    : std::vector<std::string>{kBuffer};
  }

  void update(const Step& step, ParameterState& state) const override {
    if (options_.momentum == 0.0) {
      apply(make_rule<false>(step), step.value, step.result, {step.gradient}, {});
      return;
    }
    SgdRule<true> rule = make_rule<true>(step);
    rule.momentum = options_.momentum;
    // The first gradient fills the buffer as it is, whatever the dampening.
    rule.fresh = state.tensors.contains(kBuffer) ? 1.0 - options_.dampening : 1.0;
    rule.nesterov = options_.nesterov;
    apply(rule, step.value, step.result, {step.gradient},
          {kept_tensor(state, kBuffer, step.value)});
  }

  bool predict(const Prediction& prediction, const ParameterState& state) const override {
    const auto buffer = state.tensors.find(kBuffer);
    if (buffer == state.tensors.end()) {
      return false;
    }
    apply(DriftRule{prediction.distance}, prediction.value, prediction.result, {buffer->second},
          {});
    return true;
  }

  double* momentum() override { return &options_.momentum; }

 private:
  template <bool Momentum>
  SgdRule<Momentum> make_rule(const Step& step) const {
    SgdRule<Momentum> rule;
    rule.scale = options_.maximize ? -step.scale : step.scale;
    rule.decay = options_.decay;
    rule.rate = step.rate;
    return rule;
  }

  SgdOptions options_;
};

}  // namespace

std::unique_ptr<Algorithm> make_sgd(OptionReader& options) {
  SgdOptions read;
  read.rate = options.number("lr", 1e-3, kNotNegative);
  read.momentum = options.number("momentum", 0.0, kNotNegative);
  read.dampening = options.number("dampening", 0.0, kAny);
  read.decay = options.number("weight_decay", 0.0, kNotNegative);
  read.nesterov = options.flag("nesterov", false);
  read.maximize = options.flag("maximize", false);
  if (read.nesterov && (read.momentum == 0.0 || read.dampening != 0.0)) {
    throw_invalid("[optim] sgd expects nesterov with a momentum above 0 and no dampening, got ",
                  "momentum ", read.momentum, " and dampening ", read.dampening, ".");
  }
  return std::make_unique<Sgd>(read);
}

}  // namespace ravnest::engine::optim
