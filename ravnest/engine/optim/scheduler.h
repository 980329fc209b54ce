#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/engine/optim/options.h"

namespace ravnest::engine {

// What a schedule says for one step.
struct Scheduled {
  double rate = 0.0;
  std::optional<double> momentum;  // of those schedules that move it
};

// A scheduler of torch.optim.lr_scheduler by its name there, with torch's options,
// defaults and rates: StepLR, MultiStepLR, ExponentialLR, CosineAnnealingLR, OneCycleLR,
// LinearLR. A value: it knows no optimizer, whoever steps it sets the optimizer's rate
// (and momentum, where there is one) after making it and after every step.
class Scheduler {
 public:
  // `base_rate`: the optimizer's own, which the schedule starts from. Bad options throw
  // std::invalid_argument.
  Scheduler(std::string_view name, const OptionMap& options, double base_rate);

  static std::vector<std::string> known_names();

  // Throws std::invalid_argument past the end of OneCycleLR, as torch does.
  void step();

  double rate() const { return now_.rate; }
  std::optional<double> momentum() const { return now_.momentum; }

  // The steps made are all the state there is.
  std::int64_t state() const { return steps_; }
  void load_state(std::int64_t steps);

 private:
  std::function<Scheduled(std::int64_t)> schedule_;
  std::int64_t steps_ = 0;
  Scheduled now_;
};

}  // namespace ravnest::engine
