#include "ravnest/engine/optim/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "ravnest/base/error.h"

namespace ravnest::engine::optim {

namespace {

double to_double(std::int64_t count) { return static_cast<double>(count); }

std::int64_t read_total_steps(OptionReader& options) {
  const auto total = options.find_whole("total_steps", 1);
  const auto epochs = options.find_whole("epochs", 1);
  const auto per_epoch = options.find_whole("steps_per_epoch", 1);
  if (total) {
    return *total;
  }
  if (!epochs || !per_epoch) {
    throw_invalid("[optim] OneCycleLR needs total_steps, or epochs and steps_per_epoch.");
  }
  return *epochs * *per_epoch;
}

struct Phase {
  double end = 0.0;  // the last step
  Scheduled from;
  Scheduled to;
};

class OneCycle {
 public:
  explicit OneCycle(OptionReader& options) {
    const double top = options.needed_number("max_lr", kAny);
    total_ = read_total_steps(options);
    const double rising = options.number("pct_start", 0.3, kFraction) * to_double(total_);
    cosine_ = options.word("anneal_strategy", "cos", {"cos", "linear"}) == "cos";
    const bool moves = options.flag("cycle_momentum", true);
    const double low = options.number("base_momentum", 0.85, kBelowOne);
    const double high = options.number("max_momentum", 0.95, kBelowOne);
    const double start = top / options.number("div_factor", 25.0, kPositive);
    const double least = start / options.number("final_div_factor", 1e4, kPositive);
    const auto point = [moves](double rate, double momentum) {
      return Scheduled{rate, moves ? std::optional(momentum) : std::nullopt};
    };
    phases_ = {{rising - 1.0, point(start, high), point(top, low)}};
    if (options.flag("three_phase", false)) {
      phases_.push_back({2.0 * rising - 2.0, point(top, low), point(start, high)});
    }
    const Scheduled before = phases_.back().to;
    phases_.push_back({to_double(total_ - 1), before, point(least, high)});
  }

  Scheduled operator()(std::int64_t steps) const {
    if (steps > total_) {
      throw_invalid("[optim] expected OneCycleLR to be stepped ", total_,
                    " times at most, as its options say, got step ", steps, ".");
    }
    double start = 0.0;
    std::size_t i = 0;
    for (; i + 1 < phases_.size() && to_double(steps) > phases_[i].end; ++i) {
      start = phases_[i].end;
    }
    const Phase& phase = phases_[i];
    const double length = phase.end - start;
    return between(phase, length == 0.0 ? 1.0 : (to_double(steps) - start) / length);
  }

 private:
  Scheduled between(const Phase& phase, double part) const {
    Scheduled now = {anneal(phase.from.rate, phase.to.rate, part), std::nullopt};
    if (phase.from.momentum) {
      now.momentum = anneal(*phase.from.momentum, *phase.to.momentum, part);
    }
    return now;
  }

  double anneal(double from, double to, double part) const {
    if (cosine_) {
      return to + (from - to) / 2.0 * (std::cos(std::numbers::pi * part) + 1.0);
    }
    return (to - from) * part + from;
  }

  std::int64_t total_ = 0;
  bool cosine_ = true;
  std::vector<Phase> phases_;
};

}  // namespace

Schedule make_step_lr(OptionReader& options, double base) {
  const std::int64_t size = options.needed_whole("step_size", 1);
  const double gamma = options.number("gamma", 0.1, kAny);
  return [=](std::int64_t steps) {
    return Scheduled{base * std::pow(gamma, to_double(steps / size)), std::nullopt};
  };
}

Schedule make_multi_step_lr(OptionReader& options, double base) {
  std::vector<std::int64_t> milestones = options.needed_wholes("milestones", 0);
  std::ranges::sort(milestones);
  const double gamma = options.number("gamma", 0.1, kAny);
  return [base, gamma, milestones = std::move(milestones)](std::int64_t steps) {
    const auto passed = std::ranges::upper_bound(milestones, steps) - milestones.begin();
    return Scheduled{base * std::pow(gamma, to_double(passed)), std::nullopt};
  };
}

Schedule make_exponential_lr(OptionReader& options, double base) {
  const double gamma = options.needed_number("gamma", kAny);
  return [=](std::int64_t steps) {
    return Scheduled{base * std::pow(gamma, to_double(steps)), std::nullopt};
  };
}

Schedule make_cosine_annealing_lr(OptionReader& options, double base) {
  const std::int64_t half_period = options.needed_whole("T_max", 1);
  const double least = options.number("eta_min", 0.0, kAny);
  return [=](std::int64_t steps) {
    // Of whole periods nothing is left: the cosine keeps its digits in long runs.
    const double part = to_double(steps % (2 * half_period)) / to_double(half_period);
    const double cosine = std::cos(std::numbers::pi * part);
    return Scheduled{least + (base - least) * (1.0 + cosine) / 2.0, std::nullopt};
  };
}

Schedule make_linear_lr(OptionReader& options, double base) {
  const double start =
      options.number("start_factor", 1.0 / 3.0, {.least = 0.0, .most = 1.0, .above = true});
  const double end = options.number("end_factor", 1.0, kFraction);
  const std::int64_t total = options.whole("total_iters", 5, 0);
  return [=](std::int64_t steps) {
    const double part = total == 0 ? 0.0 : to_double(std::min(steps, total)) / to_double(total);
    return Scheduled{base * (start + (end - start) * part), std::nullopt};
  };
}

Schedule make_one_cycle_lr(OptionReader& options, double) { return OneCycle(options); }

}  // namespace ravnest::engine::optim
