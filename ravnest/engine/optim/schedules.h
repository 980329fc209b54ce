#pragma once

#include <cstdint>
#include <functional>

#include "ravnest/engine/optim/options.h"
#include "ravnest/engine/optim/scheduler.h"

namespace ravnest::engine::optim {

// A schedule in closed form: from the steps made to rate and momentum.
using Schedule = std::function<Scheduled(std::int64_t)>;

Schedule make_step_lr(OptionReader& options, double base);
Schedule make_multi_step_lr(OptionReader& options, double base);
Schedule make_exponential_lr(OptionReader& options, double base);
Schedule make_cosine_annealing_lr(OptionReader& options, double base);
Schedule make_linear_lr(OptionReader& options, double base);
Schedule make_one_cycle_lr(OptionReader& options, double base);

}  // namespace ravnest::engine::optim
