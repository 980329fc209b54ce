#include "ravnest/engine/optim/algorithm.h"
#include "ravnest/engine/optim/loops.h"
#include "ravnest/engine/optim/rules.h"

namespace ravnest::engine::optim {

namespace {

constexpr const char* kMeanSquare = "square_avg";
constexpr const char* kMean = "grad_avg";

struct RmspropOptions {
  double rate = 0.0;
  double alpha = 0.0;
  double eps = 0.0;
  double decay = 0.0;
  double momentum = 0.0;
  bool centered = false;
  bool maximize = false;
};

class Rmsprop : public Algorithm {
 public:
  explicit Rmsprop(const RmspropOptions& options) : Algorithm(options.rate), options_(options) {}

  std::vector<std::string> tensor_names() const override {
    std::vector<std::string> names = {kMeanSquare};
    if (has_momentum()) {
      names.emplace_back(kBuffer);
    }
    if (options_.centered) {
      names.emplace_back(kMean);
    }
    return names;
  }

  void update(const Step& step, ParameterState& state) const override {
    if (has_momentum()) {
      options_.centered ? update_with<true, true>(step, state)
                        : update_with<true, false>(step, state);
    } else {
      options_.centered ? update_with<false, true>(step, state)
                        : update_with<false, false>(step, state);
    }
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
  bool has_momentum() const { return options_.momentum > 0.0; }

  template <bool Momentum, bool Centered>
  void update_with(const Step& step, ParameterState& state) const {
    using Rule = RmspropRule<Momentum, Centered>;
    Rule rule;
    rule.scale = options_.maximize ? -step.scale : step.scale;
    rule.decay = options_.decay;
    rule.rate = step.rate;
    rule.alpha = options_.alpha;
    rule.eps = options_.eps;
    rule.momentum = options_.momentum;
    std::array<at::Tensor, Rule::kKept> kept;
    const std::vector<std::string> names = tensor_names();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      kept[i] = kept_tensor(state, names[i], step.value);
    }
    apply(rule, step.value, step.result, {step.gradient}, kept);
  }

  RmspropOptions options_;
};

}  // namespace

std::unique_ptr<Algorithm> make_rmsprop(OptionReader& options) {
  RmspropOptions read;
  read.rate = options.number("lr", 1e-2, kNotNegative);
  read.alpha = options.number("alpha", 0.99, kNotNegative);
  read.eps = options.number("eps", 1e-8, kNotNegative);
  read.decay = options.number("weight_decay", 0.0, kNotNegative);
  read.momentum = options.number("momentum", 0.0, kNotNegative);
  read.centered = options.flag("centered", false);
  read.maximize = options.flag("maximize", false);
  return std::make_unique<Rmsprop>(read);
}

}  // namespace ravnest::engine::optim
