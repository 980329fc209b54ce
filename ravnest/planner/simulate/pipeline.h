#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <span>
#include <vector>

#include "ravnest/planner/simulate/simulate.h"

namespace ravnest::planner {

// Simulated time. Whole nanoseconds: equal times are equal, and shares sum to one.
using Time = std::chrono::nanoseconds;

// The longest simulation; what takes longer counts as this long.
inline constexpr double kMostSeconds = 1e6;

Time to_time(double seconds);
double to_seconds(Time time);

// Even in [0, 1); the same everywhere, which the standard's distributions are not.
double draw_even(std::mt19937_64& random);

// What one micro-pass takes at a stage, in seconds; in `kAsync` that is the whole pass.
struct StageTimes {
  double forward = 0.0;
  double backward = 0.0;
  double activations = 0.0;  // over the link to the next stage, without latency
  double gradients = 0.0;    // back over that link
  double latency = 0.0;
  std::size_t in_flight = 1;
};

std::size_t micro_passes(const SimulateOptions& options);
std::vector<StageTimes> stage_times(const Plan& plan, const Cluster& cluster,
                                    const SimulateOptions& options);

// What happened at a stage, in all runs.
struct StageTally {
  Time forward{};
  Time backward{};
  std::array<Time, kIdleReasons> idle{};
  Time activations_on_link{};
  Time gradients_on_link{};
  std::uint64_t activations = 0;  // messages carried
  std::uint64_t gradients = 0;
  std::uint64_t updates = 0;
  std::uint64_t delays = 0;  // sum
  std::uint64_t max_delay = 0;
};

// One cluster's pipeline, driven by a queue of events.
class Pipeline {
 public:
  // Borrows the rows of the timeline, one for each of the first stages; may be empty.
  Pipeline(const std::vector<StageTimes>& times, const SimulateOptions& options,
           const std::mt19937_64& random, std::span<TimelineRow> rows);

  // Begins with empty queues at `from` and stops at `to`, whatever is in flight then. Returns
  // the number of passes that were. A pipeline that has settled goes on as it does: of a long
  // run the middle is counted, not simulated.
  std::uint64_t run(Time from, Time to);

  std::uint64_t passes() const { return passes_leapt_ + micro_passes_done_ / micro_passes_; }
  const StageTally& tally(std::size_t stage) const { return stages_[stage].tally; }

 private:
  enum class EventKind : std::uint8_t { kForwardDone, kBackwardDone, kInput, kGradient };

  struct Event {
    Time time{};
    Time sent{};  // for messages: when they were handed to the link
    std::uint32_t stage = 0;
    EventKind kind = EventKind::kForwardDone;

    bool operator>(const Event& other) const;
  };

  // One way of a link: a message waits until those before it are carried.
  struct Wire {
    Time carry{};
    Time latency{};
    Time free{};
  };

  // Passes keep their order everywhere, so that counting them is enough.
  struct StageState {
    Time forward{};
    Time backward{};
    Wire activations;  // to the next stage
    Wire gradients;    // to the stage before
    std::size_t limit = 1;
    std::vector<std::uint64_t> version;  // at the forward, by pass modulo limit
    StageTally tally;

    bool computing = false;
    bool has_worked = false;
    std::size_t inputs = 0;  // that have arrived and wait
    std::size_t gradients_in = 0;
    Time input_sent{};  // the latest one's
    Time gradient_sent{};
    Time idle_since{};
    std::uint64_t forwards = 0;   // begun
    std::uint64_t backwards = 0;  // ended

    std::uint64_t in_flight() const { return forwards - backwards; }
  };

  // Where a run stood when it had settled.
  struct Mark {
    std::uint64_t passes = 0;
    Time time{};
    std::vector<StageTally> tallies;
  };

  void restart(Time from, Time to);
  void leap_if_settled();
  void leap(std::int64_t times, Time period, std::uint64_t passes);
  void handle(const Event& event);
  void end_forward(std::size_t index);
  void end_backward(std::size_t index);
  void update(StageState& stage, std::size_t index);
  void start_work(std::size_t index);
  void begin_forward(std::size_t index);
  void begin_backward(std::size_t index);
  void end_idle(StageState& stage, Idle reason, Time sent);
  Idle reason_at_end(std::size_t index) const;
  void compute(std::size_t index, EventKind end, Time duration);
  Time carry(Wire& wire, EventKind kind, std::size_t to);
  void record(std::size_t index, BlockKind kind, Time duration, std::uint64_t pass);
  void push(const Event& event);
  Time varied(Time duration);
  bool is_leaf(std::size_t index) const { return index + 1 == stages_.size(); }

  std::vector<StageState> stages_;
  Schedule schedule_;
  std::size_t micro_passes_;
  std::size_t reduce_factor_;
  double jitter_;
  double window_;
  std::mt19937_64 random_;
  std::function<void()> check_interrupted_;
  std::span<TimelineRow> rows_;
  std::uint64_t moments_ = 0;

  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::size_t> touched_;  // stages that may have got something to do
  Time now_{};
  Time end_{};
  std::uint64_t micro_passes_done_ = 0;  // back at the root
  std::uint64_t passes_leapt_ = 0;
  std::uint64_t settles_at_ = 0;  // passes; of this run
  Mark mark_;
};

}  // namespace ravnest::planner
