#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/planner/plan.h"
#include "ravnest/planner/simulate/timeline.h"

namespace ravnest::planner {

enum class Schedule : std::uint8_t {
  kAsync,  // an update after every backward; the pipeline is never emptied
  kSync,   // a pass is cut into micro-passes; one update after the last, then the next pass
};

// A machine is away from second `from` to second `to`.
struct Absence {
  std::int64_t machine = 0;  // its id
  double from = 0.0;
  double to = std::numeric_limits<double>::infinity();
};

// Machines that leave and return. The random part draws both times from an exponential
// distribution, for every machine by itself.
struct Churn {
  std::vector<Absence> absences;
  double mean_present_seconds = 0.0;  // before it leaves; 0: never at random
  double mean_away_seconds = 0.0;
};

struct SimulateOptions {
  double seconds = 600.0;
  Schedule schedule = Schedule::kAsync;
  std::size_t micro_batches = 4;  // of a pass in `kSync`
  std::size_t reduce_factor = 0;  // updates between two averagings; 0: clusters do not average
  Churn churn;
  double jitter = 0.0;  // compute times vary evenly by up to this share of them
  std::uint64_t seed = 0;
  double timeline_seconds = 0.0;  // 0: no timeline
  // Called now and then; what it throws ends the simulation.
  std::function<void()> check_interrupted;
};

// Why a machine does not compute.
enum class Idle : std::uint8_t {
  kStartUp,   // no pass has reached it since the start, or since its cluster went on
  kInput,     // the stage before is not ready with the next pass
  kGradient,  // the stage behind is not ready with a gradient
  kInFlight,  // it could begin a pass, but as many as it may hold are in flight
  kLink,      // what it waits for is on the link
  kHalted,    // another machine of its cluster is away
  kAway,
};
inline constexpr std::size_t kIdleReasons = 7;

// What goes one way over the link between two stages.
struct Traffic {
  std::int64_t nbytes = 0;
  double busy = 0.0;  // share of the time that the link carries it
};

struct AveragingRun {
  std::uint64_t rounds = 0;
  std::int64_t nbytes = 0;        // sent in all rounds
  double round_seconds = 0.0;     // that one round takes
  double interval_seconds = 0.0;  // between two rounds, as updates call for them

  bool keeps_up() const { return round_seconds <= interval_seconds; }
};

// A machine with a stage. Shares are of the simulated time; busy and idle make 1.
struct MachineRun {
  std::size_t machine = 0;  // index into the pool
  std::uint64_t updates = 0;
  double forward = 0.0;
  double backward = 0.0;
  std::array<double, kIdleReasons> idle{};
  Traffic activations;  // to the next stage
  Traffic gradients;    // to the stage before
  AveragingRun averaging;
  // Updates of this stage between a pass's forward and its own update.
  double mean_delay = 0.0;
  std::uint64_t max_delay = 0;
  std::int64_t memory_needed = 0;  // with this schedule
  std::int64_t memory_given = 0;

  double busy() const { return forward + backward; }
  double idle_for(Idle reason) const { return idle[static_cast<std::size_t>(reason)]; }
  bool fits() const { return memory_needed <= memory_given; }
};

enum class BottleneckKind : std::uint8_t {
  kMachine,      // a stage's computation
  kActivations,  // the link after a stage, on the way to the leaf
  kGradients,    // the same link, on the way back
  kRoundTrip,    // from a stage to the leaf and back, with all passes in flight that it may hold
};

// What keeps a cluster from being faster.
struct Bottleneck {
  BottleneckKind kind = BottleneckKind::kMachine;
  std::size_t stage = 0;
  double seconds = 0.0;  // the least time between two passes that it allows
  std::string reason;    // sentences for people
};

struct ClusterRun {
  std::uint64_t passes = 0;      // forward and backward through all stages
  std::uint64_t lost = 0;        // in flight when a machine left; they were sent again
  double running_seconds = 0.0;  // with all machines present
  double passes_per_second = 0.0;
  std::optional<double> samples_per_second;  // where the plan knows the batch
  Bottleneck bottleneck;
  std::vector<MachineRun> machines;  // by stage
};

struct Simulation {
  SimulateOptions options;
  double passes_per_second = 0.0;  // of all clusters
  std::optional<double> samples_per_second;
  std::vector<ClusterRun> clusters;
  // What will go wrong or slowly: memory that is not enough, averaging that cannot keep up.
  std::vector<std::string> warnings;
  Timeline timeline;

  bool fits() const;  // every machine has the memory for its stage
};

// Runs the plan, event by event, without running the model.
//
// A machine computes one thing at a time, gradients first; a stage holds at most
// `passes_in_flight()` passes. A link carries one message at a time each way, and a message
// arrives the link's latency after it was carried. Where a machine leaves, the passes in
// flight in its cluster are lost, and begin again when all its machines are there. Averaging
// goes on beside: it takes nothing from computation and links, and its pace is that of the
// slowest cluster. Time is counted in whole nanoseconds; the result depends on nothing but
// the arguments.
//
// Throws std::invalid_argument for options or times that make no sense, and where the
// simulation would take billions of events.
Simulation simulate(const Plan& plan, const SimulateOptions& options);

// As in the JSON below.
std::string_view name_of(Schedule schedule);  // "async", "sync"
std::string_view name_of(Idle reason);
std::string_view name_of(BottleneckKind kind);

// One JSON object. Shares are between 0 and 1; seconds that never end are null.
//   seconds, schedule, micro_batches, reduce_factor, seed
//   passes_per_second, samples_per_second     null where the batch is not known
//   fits                    whether every machine has the memory for its stage
//   warnings                sentences
//   clusters                [{passes, lost_passes, running_seconds, passes_per_second,
//                             samples_per_second, bottleneck, machines}, …]
//     bottleneck            {kind: "machine"|"activations"|"gradients"|"round_trip",
//                            node: its id, seconds, reason}
//     machines              by stage: [{node, address, updates, busy, forward, backward, idle,
//                            activations, gradients, averaging, delay, memory}, …]
//       idle                {start_up, input, gradient, in_flight, link, halted, away}
//       activations, gradients   {bytes, busy}
//       averaging           null without; {rounds, bytes, round_seconds, interval_seconds,
//                            keeps_up}
//       delay               {mean, max}
//       memory              {needed, given}
std::string to_json(const Simulation& simulation, const Plan& plan);

}  // namespace ravnest::planner
