#include "ravnest/planner/simulate/pipeline.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "ravnest/base/error.h"

namespace ravnest::planner {

namespace {

// After so many passes a pipeline is taken to have settled; as many more are then a sample.
constexpr std::uint64_t kPassesToSettle = 4096;
constexpr std::uint64_t kMomentsBetweenChecks = 1 << 18;

double carry_seconds(double nbytes, const Link& link) {
  return nbytes > 0 ? nbytes * 8 / (link.mbps * 1e6) : 0.0;
}

std::size_t index_of(Idle reason) { return static_cast<std::size_t>(reason); }

}  // namespace

Time to_time(double seconds) {
  return Time(std::llround(std::clamp(seconds, 0.0, kMostSeconds) * 1e9));
}

double to_seconds(Time time) { return std::chrono::duration<double>(time).count(); }

double draw_even(std::mt19937_64& random) { return static_cast<double>(random() >> 11U) * 0x1p-53; }

std::size_t micro_passes(const SimulateOptions& options) {
  return options.schedule == Schedule::kSync ? options.micro_batches : 1;
}

std::vector<StageTimes> stage_times(const Plan& plan, const Cluster& cluster,
                                    const SimulateOptions& options) {
  const auto parts = static_cast<double>(micro_passes(options));
  std::vector<StageTimes> all;
  for (std::size_t i = 0; i < cluster.stages.size(); ++i) {
    const Stage& stage = cluster.stages[i];
    StageTimes times{.forward = stage.forward_seconds / parts,
                     .backward = stage.backward_seconds / parts,
                     .in_flight = stage.passes_in_flight()};
    if (i + 1 < cluster.stages.size()) {
      const Link link = link_between(plan.machine(stage), plan.machine(cluster.stages[i + 1]));
      times.activations = carry_seconds(static_cast<double>(stage.forward_bytes) / parts, link);
      times.gradients = carry_seconds(static_cast<double>(stage.backward_bytes) / parts, link);
      times.latency = link.latency_ms / 1e3;
    }
    all.push_back(times);
  }
  return all;
}

bool Pipeline::Event::operator>(const Event& other) const {
  if (time != other.time) {
    return time > other.time;
  }
  return stage != other.stage ? stage > other.stage : kind > other.kind;
}

Pipeline::Pipeline(const std::vector<StageTimes>& times, const SimulateOptions& options,
                   const std::mt19937_64& random, std::span<TimelineRow> rows)
    : stages_(times.size()),
      schedule_(options.schedule),
      micro_passes_(planner::micro_passes(options)),
      reduce_factor_(options.reduce_factor),
      jitter_(options.jitter),
      window_(options.timeline_seconds),
      random_(random),
      check_interrupted_(options.check_interrupted),
      rows_(rows) {
  for (std::size_t i = 0; i < times.size(); ++i) {
    StageState& stage = stages_[i];
    stage.forward = to_time(times[i].forward);
    stage.backward = to_time(times[i].backward);
    stage.limit = times[i].in_flight;
    stage.version.resize(stage.limit);
    const Time latency = to_time(times[i].latency);
    stage.activations = {.carry = to_time(times[i].activations), .latency = latency};
    if (i + 1 < times.size()) {
      stages_[i + 1].gradients = {.carry = to_time(times[i].gradients), .latency = latency};
    }
  }
}

std::uint64_t Pipeline::run(Time from, Time to) {
  restart(from, to);
  start_work(0);
  while (!events_.empty()) {
    now_ = events_.top().time;
    // Everything that happens at one moment is known before anybody chooses what to do next.
    while (!events_.empty() && events_.top().time == now_) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
    if (now_ < end_) {
      std::ranges::for_each(touched_, [this](std::size_t index) { start_work(index); });
    }
    touched_.clear();
    leap_if_settled();
    if (check_interrupted_ && ++moments_ % kMomentsBetweenChecks == 0) {
      check_interrupted_();
    }
  }
  now_ = end_;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (!stages_[i].computing) {
      end_idle(stages_[i], reason_at_end(i), end_);
    }
  }
  const StageState& root = stages_.front();
  return (root.in_flight() + micro_passes_ - 1) / micro_passes_;
}

void Pipeline::leap_if_settled() {
  const std::uint64_t done = micro_passes_done_ / micro_passes_;
  if (done < settles_at_ || to_seconds(now_) < window_) {
    return;
  }
  if (mark_.tallies.empty()) {
    mark_ = {.passes = done, .time = now_, .tallies = {}};
    std::ranges::transform(stages_, std::back_inserter(mark_.tallies), &StageState::tally);
    settles_at_ = done + kPassesToSettle;
    return;
  }
  const Time period = now_ - mark_.time;
  const std::int64_t times = period > Time::zero() ? (end_ - now_) / period - 1 : 0;
  if (times > 0) {
    leap(times, period, done - mark_.passes);
  }
  settles_at_ = std::numeric_limits<std::uint64_t>::max();
}

// What happened since the mark happens so many times more, and the end is that much nearer.
void Pipeline::leap(std::int64_t times, Time period, std::uint64_t passes) {
  const auto count = static_cast<std::uint64_t>(times);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const StageTally& before = mark_.tallies[i];
    StageTally& tally = stages_[i].tally;
    const StageTally after = tally;
    tally.forward += times * (after.forward - before.forward);
    tally.backward += times * (after.backward - before.backward);
    Time counted = after.forward - before.forward + after.backward - before.backward;
    std::size_t longest = 0;
    for (std::size_t reason = 0; reason < kIdleReasons; ++reason) {
      const Time idle = after.idle[reason] - before.idle[reason];
      tally.idle[reason] += times * idle;
      counted += idle;
      longest = idle > after.idle[longest] - before.idle[longest] ? reason : longest;
    }
    // What was begun at the mark and what is not over now need not be equally long.
    tally.idle[longest] += times * (period - counted);
    tally.activations_on_link += times * (after.activations_on_link - before.activations_on_link);
    tally.gradients_on_link += times * (after.gradients_on_link - before.gradients_on_link);
    tally.activations += count * (after.activations - before.activations);
    tally.gradients += count * (after.gradients - before.gradients);
    const std::uint64_t updates = count * (after.updates - before.updates);
    tally.updates += updates;
    for (std::uint64_t& version : stages_[i].version) {
      version += updates;
    }
    tally.delays += count * (after.delays - before.delays);
  }
  passes_leapt_ += count * passes;
  end_ -= times * period;
}

void Pipeline::restart(Time from, Time to) {
  now_ = from;
  end_ = to;
  mark_ = {};
  settles_at_ = micro_passes_done_ / micro_passes_ + kPassesToSettle;
  // What a pass had done so far is lost with it.
  micro_passes_done_ -= micro_passes_done_ % micro_passes_;
  for (StageState& stage : stages_) {
    stage.computing = false;
    stage.has_worked = false;
    stage.inputs = 0;
    stage.gradients_in = 0;
    stage.idle_since = from;
    stage.activations.free = from;
    stage.gradients.free = from;
    stage.forwards = micro_passes_done_;
    stage.backwards = micro_passes_done_;
  }
  stages_.front().inputs = micro_passes_;
}

void Pipeline::handle(const Event& event) {
  StageState& stage = stages_[event.stage];
  switch (event.kind) {
    case EventKind::kForwardDone:
      end_forward(event.stage);
      break;
    case EventKind::kBackwardDone:
      end_backward(event.stage);
      break;
    case EventKind::kInput:
      ++stage.inputs;
      stage.input_sent = event.sent;
      break;
    case EventKind::kGradient:
      ++stage.gradients_in;
      stage.gradient_sent = event.sent;
      break;
    default:
      RAVNEST_CHECK(false);
  }
  touched_.push_back(event.stage);
}

void Pipeline::end_forward(std::size_t index) {
  StageState& stage = stages_[index];
  stage.computing = false;
  stage.idle_since = now_;
  if (is_leaf(index)) {
    ++stage.gradients_in;
    return;
  }
  const Time carried = carry(stage.activations, EventKind::kInput, index + 1);
  stage.tally.activations_on_link += carried;
  stage.tally.activations += stage.activations.free <= end_ ? 1 : 0;
}

void Pipeline::end_backward(std::size_t index) {
  StageState& stage = stages_[index];
  stage.computing = false;
  stage.idle_since = now_;
  ++stage.backwards;
  if (stage.backwards % micro_passes_ == 0) {
    update(stage, index);
  }
  if (index > 0) {
    const Time carried = carry(stage.gradients, EventKind::kGradient, index - 1);
    stage.tally.gradients_on_link += carried;
    stage.tally.gradients += stage.gradients.free <= end_ ? 1 : 0;
    return;
  }
  ++micro_passes_done_;
  if (schedule_ == Schedule::kSync && micro_passes_done_ % micro_passes_ == 0) {
    stage.inputs = micro_passes_;
  }
}

void Pipeline::update(StageState& stage, std::size_t index) {
  const std::uint64_t pass = stage.backwards - 1;
  const std::uint64_t delay = stage.tally.updates - stage.version[pass % stage.limit];
  stage.tally.delays += delay;
  stage.tally.max_delay = std::max(stage.tally.max_delay, delay);
  ++stage.tally.updates;
  const bool averages = reduce_factor_ > 0 && stage.tally.updates % reduce_factor_ == 0;
  if (averages && index < rows_.size() && to_seconds(now_) < window_) {
    rows_[index].averaging.push_back({.from = to_seconds(now_), .to = to_seconds(now_)});
  }
}

void Pipeline::start_work(std::size_t index) {
  const StageState& stage = stages_[index];
  if (stage.computing) {
    return;
  }
  if (stage.gradients_in > 0) {
    begin_backward(index);
  } else if (stage.inputs > 0 && stage.in_flight() < stage.limit) {
    begin_forward(index);
  }
}

void Pipeline::begin_forward(std::size_t index) {
  StageState& stage = stages_[index];
  end_idle(stage, Idle::kInput, stage.input_sent);
  // In `kAsync` the root always has the next pass at hand.
  if (index > 0 || schedule_ == Schedule::kSync) {
    --stage.inputs;
  }
  stage.version[stage.forwards % stage.limit] = stage.tally.updates;
  ++stage.forwards;
  const Time duration = varied(stage.forward);
  stage.tally.forward += std::min(duration, end_ - now_);
  record(index, BlockKind::kForward, duration, stage.forwards);
  compute(index, EventKind::kForwardDone, duration);
}

void Pipeline::begin_backward(std::size_t index) {
  StageState& stage = stages_[index];
  end_idle(stage, stage.inputs > 0 ? Idle::kInFlight : Idle::kGradient, stage.gradient_sent);
  --stage.gradients_in;
  const Time duration = varied(stage.backward);
  stage.tally.backward += std::min(duration, end_ - now_);
  record(index, BlockKind::kBackward, duration, stage.backwards + 1);
  compute(index, EventKind::kBackwardDone, duration);
}

// A machine that waits is woken by a message: until that was sent it waited for the
// sender, and from then on for the link.
void Pipeline::end_idle(StageState& stage, Idle reason, Time sent) {
  if (now_ == stage.idle_since) {
    return;
  }
  auto& idle = stage.tally.idle;
  if (!stage.has_worked) {
    idle[index_of(Idle::kStartUp)] += now_ - stage.idle_since;
    return;
  }
  const Time handed_over = std::clamp(sent, stage.idle_since, now_);
  idle[index_of(reason)] += handed_over - stage.idle_since;
  idle[index_of(Idle::kLink)] += now_ - handed_over;
}

Idle Pipeline::reason_at_end(std::size_t index) const {
  const StageState& stage = stages_[index];
  if (stage.in_flight() == 0) {
    return Idle::kInput;
  }
  return stage.inputs > 0 ? Idle::kInFlight : Idle::kGradient;
}

void Pipeline::compute(std::size_t index, EventKind end, Time duration) {
  StageState& stage = stages_[index];
  stage.computing = true;
  stage.has_worked = true;
  push({.time = now_ + duration, .stage = static_cast<std::uint32_t>(index), .kind = end});
}

// Returns for how long, of the time that is left, the wire is taken.
Time Pipeline::carry(Wire& wire, EventKind kind, std::size_t to) {
  const Time start = std::max(now_, wire.free);
  wire.free = start + wire.carry;
  push({.time = wire.free + wire.latency,
        .sent = now_,
        .stage = static_cast<std::uint32_t>(to),
        .kind = kind});
  return std::min(wire.free, end_) - std::min(start, end_);
}

void Pipeline::record(std::size_t index, BlockKind kind, Time duration, std::uint64_t pass) {
  if (index >= rows_.size() || to_seconds(now_) >= window_) {
    return;
  }
  const Time stop = std::min(now_ + duration, end_);
  const bool updates = kind == BlockKind::kBackward && pass % micro_passes_ == 0;
  add_block(rows_[index],
            {.kind = kind,
             .span = {.from = to_seconds(now_), .to = to_seconds(stop)},
             .pass = (pass - 1) / micro_passes_ + 1,
             .updates = updates && now_ + duration <= end_},
            window_);
}

void Pipeline::push(const Event& event) {
  if (event.time <= end_) {
    events_.push(event);
  }
}

Time Pipeline::varied(Time duration) {
  if (jitter_ == 0.0) {
    return duration;
  }
  const double share = 1 + jitter_ * (2 * draw_even(random_) - 1);
  return Time(std::llround(static_cast<double>(duration.count()) * share));
}

}  // namespace ravnest::planner
