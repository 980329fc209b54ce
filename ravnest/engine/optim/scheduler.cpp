#include "ravnest/engine/optim/scheduler.h"

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/engine/optim/schedules.h"

namespace ravnest::engine {

namespace {

struct Known {
  std::string name;
  optim::Schedule (*make)(optim::OptionReader&, double);
};

const std::vector<Known> kSchedules = {
    {"StepLR", optim::make_step_lr},
    {"MultiStepLR", optim::make_multi_step_lr},
    {"ExponentialLR", optim::make_exponential_lr},
    {"CosineAnnealingLR", optim::make_cosine_annealing_lr},
    {"OneCycleLR", optim::make_one_cycle_lr},
    {"LinearLR", optim::make_linear_lr},
};

optim::Schedule make_schedule(std::string_view name, const OptionMap& options, double base_rate) {
  const auto is_named = [&name](const Known& known) {
    return optim::lower_case(known.name) == optim::lower_case(name);
  };
  const auto found = std::ranges::find_if(kSchedules, is_named);
  if (found == kSchedules.end()) {
    throw_invalid("[optim] there is no scheduler '", name, "'; there are ",
                  optim::join(Scheduler::known_names()), ".");
  }
  optim::OptionReader reader(found->name, options);
  optim::Schedule schedule = found->make(reader, base_rate);
  reader.finish();
  return schedule;
}

}  // namespace

Scheduler::Scheduler(std::string_view name, const OptionMap& options, double base_rate)
    : schedule_(make_schedule(name, options, base_rate)), now_(schedule_(0)) {}

std::vector<std::string> Scheduler::known_names() {
  std::vector<std::string> names;
  for (const Known& known : kSchedules) {
    names.push_back(known.name);
  }
  return names;
}

void Scheduler::step() { load_state(steps_ + 1); }

void Scheduler::load_state(std::int64_t steps) {
  if (steps < 0) {
    throw_invalid("[optim] expected a scheduler's steps to be 0 or more, got ", steps, ".");
  }
  now_ = schedule_(steps);
  steps_ = steps;
}

}  // namespace ravnest::engine
