#include "ravnest/planner/simulate/simulate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "tests/planner/simulated_plan.h"

namespace ravnest::planner {
namespace {

double sum_of_shares(const MachineRun& run) {
  return std::accumulate(run.idle.begin(), run.idle.end(), run.busy());
}

void expect_whole_shares(const Simulation& simulation) {
  for (const ClusterRun& cluster : simulation.clusters) {
    for (const MachineRun& run : cluster.machines) {
      EXPECT_NEAR(sum_of_shares(run), 1.0, 1e-9);
    }
  }
}

double rate(const Plan& plan, const SimulateOptions& options) {
  return simulate(plan, options).passes_per_second;
}

TEST(Simulate, OneMachineComputesAllTheTime) {
  const Plan plan = make_pipelines({{{0.01, 0.02}}}, {});
  const Simulation found = simulate(plan, {.seconds = 60});
  ASSERT_EQ(found.clusters.size(), 1U);
  EXPECT_EQ(found.clusters[0].passes, 2000U);
  EXPECT_DOUBLE_EQ(*found.samples_per_second, 2000.0 / 60 * 32);
  const MachineRun& run = found.clusters[0].machines[0];
  EXPECT_NEAR(run.forward, 1.0 / 3, 1e-6);
  EXPECT_NEAR(run.backward, 2.0 / 3, 1e-6);
  EXPECT_EQ(run.updates, 2000U);
  EXPECT_EQ(run.max_delay, 0U);
  EXPECT_EQ(run.activations.nbytes, 0);
  EXPECT_EQ(run.gradients.nbytes, 0);
  EXPECT_EQ(found.clusters[0].bottleneck.kind, BottleneckKind::kMachine);
}

TEST(Simulate, SlowestStageSetsThePace) {
  for (std::size_t slow = 0; slow < 4; ++slow) {
    std::vector<Compute> stages(4, Compute{.forward = 0.01, .backward = 0.02});
    stages[slow] = {.forward = 0.03, .backward = 0.05};
    const Simulation found = simulate(make_pipelines({stages}, {}), {.seconds = 200});
    EXPECT_NEAR(found.passes_per_second, 1 / 0.08, 0.01 / 0.08) << slow;
    EXPECT_GT(found.clusters[0].machines[slow].busy(), 0.99);
    EXPECT_EQ(found.clusters[0].bottleneck.kind, BottleneckKind::kMachine);
    EXPECT_EQ(found.clusters[0].bottleneck.stage, slow);
    EXPECT_DOUBLE_EQ(found.clusters[0].bottleneck.seconds, 0.08);
    expect_whole_shares(found);
  }
}

TEST(Simulate, EvenPipelineWithoutLinksIsFull) {
  const std::vector<Compute> stages(5, Compute{.forward = 0.01, .backward = 0.01});
  const Simulation found = simulate(make_pipelines({stages}, {}), {.seconds = 200});
  EXPECT_NEAR(found.passes_per_second, 50, 0.1);
  for (const MachineRun& run : found.clusters[0].machines) {
    EXPECT_GT(run.busy(), 0.99);
  }
}

TEST(Simulate, SlowLinkSetsThePace) {
  // 1 MB over 100 Mbps takes 80 ms; the machines are much faster.
  const Wires down{.forward_bytes = 1'000'000, .backward_bytes = 1'000, .mbps = 100};
  const Wires up{.forward_bytes = 1'000, .backward_bytes = 1'000'000, .mbps = 100};
  const std::vector<Compute> stages(2, Compute{.forward = 0.002, .backward = 0.004});
  for (const Wires& wires : {down, up}) {
    const Simulation found = simulate(make_pipelines({stages}, wires), {.seconds = 200});
    EXPECT_NEAR(found.passes_per_second, 12.5, 0.05);
    const ClusterRun& cluster = found.clusters[0];
    const bool is_down = wires.forward_bytes > wires.backward_bytes;
    EXPECT_EQ(cluster.bottleneck.kind,
              is_down ? BottleneckKind::kActivations : BottleneckKind::kGradients);
    const Traffic& traffic =
        is_down ? cluster.machines[0].activations : cluster.machines[1].gradients;
    EXPECT_GT(traffic.busy, 0.99);
    EXPECT_NEAR(static_cast<double>(traffic.nbytes), 200 * 12.5 * 1e6, 3e6);
    expect_whole_shares(found);
  }
}

TEST(Simulate, RoundTripBoundsWhatMayBeInFlight) {
  // Out and back: 2 × 30 ms of computing and 2 × 120 ms of latency, two passes at a time.
  const std::vector<Compute> stages(2, Compute{.forward = 0.01, .backward = 0.02});
  const Plan plan = make_pipelines({stages}, {.latency_ms = 120});
  const Simulation found = simulate(plan, {.seconds = 300});
  EXPECT_NEAR(found.passes_per_second, 2 / 0.3, 0.05);
  const Bottleneck& bottleneck = found.clusters[0].bottleneck;
  EXPECT_EQ(bottleneck.kind, BottleneckKind::kRoundTrip);
  EXPECT_EQ(bottleneck.stage, 0U);
  EXPECT_NEAR(bottleneck.seconds, 0.15, 1e-9);
  EXPECT_NE(bottleneck.reason.find("300 ms from node 10"), std::string::npos) << bottleneck.reason;
  EXPECT_GT(found.clusters[0].machines[1].idle_for(Idle::kLink), 0.3);
}

TEST(Simulate, NeverBeatsItsBottleneck) {
  const std::vector<Compute> stages{{0.012, 0.031}, {0.02, 0.017}, {0.004, 0.03}, {0.01, 0.02}};
  for (const double latency : {0.0, 3.0, 40.0}) {
    for (const double mbps : {20.0, 100.0, 10'000.0}) {
      const Wires wires{
          .forward_bytes = 300'000, .backward_bytes = 250'000, .mbps = mbps, .latency_ms = latency};
      const Simulation found = simulate(make_pipelines({stages}, wires), {.seconds = 100});
      const double bound = 1 / found.clusters[0].bottleneck.seconds;
      EXPECT_LE(found.passes_per_second, bound * 1.0001);
      EXPECT_GE(found.passes_per_second, bound * 0.85) << latency << " ms, " << mbps << " Mbps";
      expect_whole_shares(found);
    }
  }
}

TEST(Simulate, SaysWhenForwardsAndGradientsWaitForEachOther) {
  // Gradients go first, so that the root's passes bunch up: no machine or link is full.
  const Plan plan = make_pipelines(
      {{{0.0107, 0.0469}, {0.0071, 0.0227}, {0.0068, 0.0251}, {0.0226, 0.0129}}},
      {.forward_bytes = 226'000, .backward_bytes = 700, .mbps = 94, .latency_ms = 0.1});
  const Simulation found = simulate(plan, {.seconds = 100});
  const ClusterRun& cluster = found.clusters[0];
  EXPECT_LT(cluster.passes_per_second * cluster.bottleneck.seconds, 0.7);
  EXPECT_NE(cluster.bottleneck.reason.find("waiting for each other"), std::string::npos)
      << cluster.bottleneck.reason;
  const Plan even = make_pipelines({{{0.01, 0.01}, {0.01, 0.01}}}, {});
  const std::string reason = simulate(even, {.seconds = 100}).clusters[0].bottleneck.reason;
  EXPECT_EQ(reason.find("waiting"), std::string::npos) << reason;
}

TEST(Simulate, AsyncBeatsSync) {
  const std::vector<Compute> stages(3, Compute{.forward = 0.01, .backward = 0.02});
  const Plan plan = make_pipelines({stages}, {.forward_bytes = 1000, .backward_bytes = 1000});
  const double async = rate(plan, {.seconds = 100});
  const double sync = rate(plan, {.seconds = 100, .schedule = Schedule::kSync});
  EXPECT_GT(async, 1.3 * sync);
  const double finer =
      rate(plan, {.seconds = 100, .schedule = Schedule::kSync, .micro_batches = 16});
  EXPECT_GT(finer, sync);
  EXPECT_GT(async, finer);
}

TEST(Simulate, SyncFillsAndEmptiesThePipeline) {
  // Even stages: an update takes as long as m + p - 1 micro-passes of one stage.
  const std::vector<Compute> stages(3, Compute{.forward = 0.04, .backward = 0.08});
  const Simulation found =
      simulate(make_pipelines({stages}, {}), {.seconds = 180, .schedule = Schedule::kSync});
  EXPECT_EQ(found.clusters[0].passes, 1000U);  // 6 × 30 ms
  for (const MachineRun& run : found.clusters[0].machines) {
    EXPECT_EQ(run.updates, 1000U);
    EXPECT_EQ(run.max_delay, 0U);
    EXPECT_NEAR(run.busy(), 4.0 / 6, 1e-3);
  }
  expect_whole_shares(found);
}

TEST(Simulate, SyncEqualsAsyncOnOneMachine) {
  const Plan plan = make_pipelines({{{0.012, 0.028}}}, {});
  const Simulation async = simulate(plan, {.seconds = 100});
  const Simulation sync = simulate(plan, {.seconds = 100, .schedule = Schedule::kSync});
  EXPECT_EQ(async.clusters[0].passes, 2500U);
  EXPECT_EQ(sync.clusters[0].passes, 2500U);
  EXPECT_EQ(sync.clusters[0].machines[0].updates, 2500U);
}

TEST(Simulate, SyncSendsAsManyBytesForAPass) {
  const std::vector<Compute> stages(2, Compute{.forward = 0.01, .backward = 0.02});
  const Plan plan = make_pipelines({stages}, {.forward_bytes = 4000, .backward_bytes = 8000});
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync}) {
    const Simulation found = simulate(plan, {.seconds = 100, .schedule = schedule});
    const auto passes = static_cast<double>(found.clusters[0].passes);
    const auto& machines = found.clusters[0].machines;
    EXPECT_NEAR(static_cast<double>(machines[0].activations.nbytes), passes * 4000, 2 * 4000);
    EXPECT_NEAR(static_cast<double>(machines[1].gradients.nbytes), passes * 8000, 2 * 8000);
  }
}

TEST(Simulate, DelayIsAtMostTheStagesBehind) {
  // The leaf is slow: all stages before it hold as many passes as they may.
  std::vector<Compute> stages(4, Compute{.forward = 0.01, .backward = 0.01});
  stages[3] = {.forward = 0.03, .backward = 0.03};
  const Simulation found = simulate(make_pipelines({stages}, {}), {.seconds = 300});
  for (std::size_t k = 0; k < 4; ++k) {
    const MachineRun& run = found.clusters[0].machines[k];
    EXPECT_EQ(run.max_delay, 3 - k);
    EXPECT_NEAR(run.mean_delay, static_cast<double>(3 - k), 0.01) << k;
  }
}

TEST(Simulate, DelayStaysBoundedWhateverTheTimes) {
  const std::vector<Compute> stages{{0.03, 0.01}, {0.005, 0.04}, {0.02, 0.002}, {0.011, 0.013}};
  const Wires wires{.forward_bytes = 100'000, .backward_bytes = 90'000, .mbps = 100};
  const Simulation found =
      simulate(make_pipelines({stages}, wires), {.seconds = 100, .jitter = 0.9, .seed = 3});
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_LE(found.clusters[0].machines[k].max_delay, 3 - k);
  }
  EXPECT_GT(found.clusters[0].machines[0].mean_delay, 1);
  EXPECT_EQ(found.clusters[0].machines[3].mean_delay, 0);
}

TEST(Simulate, SaysWhyAMachineIsIdle) {
  // A slow root: the others wait for input.
  const Simulation slow_root =
      simulate(make_pipelines({{{0.05, 0.05}, {0.01, 0.01}}}, {}), {.seconds = 100});
  EXPECT_NEAR(slow_root.clusters[0].machines[1].idle_for(Idle::kInput), 0.8, 0.01);
  // A slow leaf: the root holds all that it may.
  const Simulation slow_leaf =
      simulate(make_pipelines({{{0.01, 0.01}, {0.05, 0.05}}}, {}), {.seconds = 100});
  EXPECT_NEAR(slow_leaf.clusters[0].machines[0].idle_for(Idle::kInFlight), 0.8, 0.01);
  // In sync the root has nothing to begin while the last gradients come.
  const Simulation sync = simulate(make_pipelines({{{0.01, 0.01}, {0.05, 0.05}}}, {}),
                                   {.seconds = 100, .schedule = Schedule::kSync});
  EXPECT_GT(sync.clusters[0].machines[0].idle_for(Idle::kGradient), 0.1);
}

TEST(Simulate, TinyFirstSecondsAreStartUp) {
  const std::vector<Compute> stages(3, Compute{.forward = 0.1, .backward = 0.1});
  const Simulation found = simulate(make_pipelines({stages}, {}), {.seconds = 1});
  EXPECT_NEAR(found.clusters[0].machines[0].idle_for(Idle::kStartUp), 0.0, 1e-9);
  EXPECT_NEAR(found.clusters[0].machines[1].idle_for(Idle::kStartUp), 0.1, 1e-9);
  EXPECT_NEAR(found.clusters[0].machines[2].idle_for(Idle::kStartUp), 0.2, 1e-9);
}

TEST(Simulate, LinkThatNeverDeliversLetsNothingThrough) {
  const std::vector<Compute> stages(2, Compute{.forward = 0.01, .backward = 0.02});
  for (const double mbps : {0.0, 1e-6}) {
    const Wires wires{.forward_bytes = 1'000'000, .backward_bytes = 1, .mbps = mbps};
    const Simulation found = simulate(make_pipelines({stages}, wires), {.seconds = 60});
    EXPECT_EQ(found.clusters[0].passes, 0U);
    EXPECT_EQ(found.clusters[0].bottleneck.kind, BottleneckKind::kActivations);
    EXPECT_DOUBLE_EQ(found.clusters[0].machines[1].idle_for(Idle::kStartUp), 1.0);
    EXPECT_EQ(found.clusters[0].machines[0].activations.nbytes, 0);
    EXPECT_NEAR(found.clusters[0].machines[0].activations.busy, 1.0, 1e-3);
    expect_whole_shares(found);
    EXPECT_TRUE(nlohmann::json::accept(to_json(found, make_pipelines({stages}, wires))));
  }
}

TEST(Simulate, AbsentMachineStopsItsClusterAlone) {
  const std::vector<Compute> stages(2, Compute{.forward = 0.01, .backward = 0.02});
  const Plan plan = make_pipelines({stages, stages}, {});
  const Churn churn{.absences = {{.machine = 11, .from = 20, .to = 50}}};
  const Simulation whole = simulate(plan, {.seconds = 100});
  const Simulation found = simulate(plan, {.seconds = 100, .churn = churn});
  EXPECT_EQ(found.clusters[1].passes, whole.clusters[1].passes);
  EXPECT_NEAR(static_cast<double>(found.clusters[0].passes),
              0.7 * static_cast<double>(whole.clusters[0].passes), 5);
  EXPECT_EQ(found.clusters[0].lost, 2U);
  EXPECT_DOUBLE_EQ(found.clusters[0].running_seconds, 70);
  EXPECT_DOUBLE_EQ(found.clusters[0].machines[1].idle_for(Idle::kAway), 0.3);
  EXPECT_DOUBLE_EQ(found.clusters[0].machines[0].idle_for(Idle::kHalted), 0.3);
  EXPECT_DOUBLE_EQ(found.clusters[0].machines[0].idle_for(Idle::kAway), 0.0);
  EXPECT_NE(found.clusters[0].bottleneck.reason.find("stands still 30 %"), std::string::npos);
  expect_whole_shares(found);
}

TEST(Simulate, MachineThatNeverReturnsEndsItsCluster) {
  const std::vector<Compute> stages(2, Compute{.forward = 0.01, .backward = 0.02});
  const Churn churn{
      .absences = {{.machine = 10, .from = 25}, {.machine = 11, .from = 10, .to = 30}}};
  const Simulation found = simulate(make_pipelines({stages}, {}), {.seconds = 100, .churn = churn});
  EXPECT_DOUBLE_EQ(found.clusters[0].running_seconds, 10);
  EXPECT_DOUBLE_EQ(found.clusters[0].machines[0].idle_for(Idle::kAway), 0.75);
  EXPECT_DOUBLE_EQ(found.clusters[0].machines[0].idle_for(Idle::kHalted), 0.15);
  EXPECT_DOUBLE_EQ(found.clusters[0].machines[1].idle_for(Idle::kAway), 0.2);
  EXPECT_DOUBLE_EQ(found.clusters[0].machines[1].idle_for(Idle::kHalted), 0.7);
  expect_whole_shares(found);
}

TEST(Simulate, LostSyncPassBeginsAgain) {
  // An update takes 6 × 30 ms; the machine leaves in the middle of the second, when one of
  // its micro-passes is back at the root.
  const std::vector<Compute> stages(3, Compute{.forward = 0.04, .backward = 0.08});
  const Plan plan = make_pipelines({stages}, {});
  SimulateOptions options{.seconds = 1.17, .schedule = Schedule::kSync};
  options.churn.absences = {{.machine = 11, .from = 0.28, .to = 1}};
  EXPECT_EQ(simulate(plan, options).clusters[0].passes, 1U);
  options.seconds = 1.18;
  EXPECT_EQ(simulate(plan, options).clusters[0].passes, 2U);
  EXPECT_EQ(simulate(plan, options).clusters[0].lost, 1U);
}

TEST(Simulate, RandomChurnCostsItsShare) {
  const std::vector<Compute> stages(3, Compute{.forward = 0.1, .backward = 0.2});
  const std::vector<std::vector<Compute>> clusters(20, stages);
  const Plan plan = make_pipelines(clusters, {});
  const Churn churn{.mean_present_seconds = 300, .mean_away_seconds = 30};
  const double whole = rate(plan, {.seconds = 3600});
  const Simulation found = simulate(plan, {.seconds = 3600, .churn = churn, .seed = 5});
  // All three are there 10/11 of the time each; what is lost in flight is little.
  EXPECT_NEAR(found.passes_per_second / whole, std::pow(10.0 / 11, 3), 0.02);
  expect_whole_shares(found);
}

TEST(Simulate, EqualSeedsGiveEqualResults) {
  const std::vector<Compute> stages(3, Compute{.forward = 0.01, .backward = 0.02});
  const Plan plan = make_pipelines({stages, stages}, {.forward_bytes = 1000});
  SimulateOptions options{.seconds = 120, .jitter = 0.3, .seed = 7};
  options.churn = {.mean_present_seconds = 60, .mean_away_seconds = 5};
  const std::string first = to_json(simulate(plan, options), plan);
  EXPECT_EQ(to_json(simulate(plan, options), plan), first);
  options.seed = 8;
  EXPECT_NE(to_json(simulate(plan, options), plan), first);
}

TEST(Simulate, JitterKeepsTheMeanOfComputing) {
  const Plan plan = make_pipelines({{{0.01, 0.02}}}, {});
  EXPECT_NEAR(rate(plan, {.seconds = 600, .jitter = 0.5}), 1 / 0.03, 0.01 / 0.03);
  // Where machines wait for each other, it costs.
  const std::vector<Compute> stages(4, Compute{.forward = 0.01, .backward = 0.02});
  const Plan pipeline = make_pipelines({stages}, {});
  EXPECT_LT(rate(pipeline, {.seconds = 100, .jitter = 0.5}),
            0.97 * rate(pipeline, {.seconds = 100}));
}

TEST(Simulate, CountsAveragingBytes) {
  const std::vector<Compute> stages(1, Compute{.forward = 0.01, .backward = 0.02});
  Plan plan = make_pipelines({stages, stages, stages, stages}, {.mbps = 80, .latency_ms = 5});
  plan.rings = {{.id = 0, .nbytes = 1'000'000, .holders = {0, 0, 0, 0}},
                {.id = 1, .nbytes = 500'000, .holders = {0, 0, 0, 0}}};
  const Simulation found = simulate(plan, {.seconds = 90, .reduce_factor = 100});
  for (const ClusterRun& cluster : found.clusters) {
    const AveragingRun& averaging = cluster.machines[0].averaging;
    EXPECT_NEAR(averaging.interval_seconds, 3.0, 1e-6);
    EXPECT_EQ(averaging.rounds, 30U);
    EXPECT_EQ(averaging.nbytes, 30 * 1'500'000 * 2 * 3 / 4);
    // Six steps: a quarter of the bytes at 10 MB/s, and the latency; ring after ring.
    EXPECT_NEAR(averaging.round_seconds, 6 * (0.0375 + 2 * 0.005), 1e-9);
    EXPECT_TRUE(averaging.keeps_up());
  }
  EXPECT_TRUE(found.warnings.empty());
}

TEST(Simulate, AveragingThatCannotKeepUpIsReported) {
  const std::vector<Compute> stages(1, Compute{.forward = 0.01, .backward = 0.02});
  Plan plan = make_pipelines({stages, stages}, {.mbps = 8});
  plan.rings = {{.id = 0, .nbytes = 9'000'000, .holders = {0, 0}}};
  const Simulation found = simulate(plan, {.seconds = 90, .reduce_factor = 100});
  const AveragingRun& averaging = found.clusters[0].machines[0].averaging;
  EXPECT_DOUBLE_EQ(averaging.round_seconds, 9);
  EXPECT_FALSE(averaging.keeps_up());
  EXPECT_EQ(averaging.rounds, 10U);
  ASSERT_EQ(found.warnings.size(), 1U);
  EXPECT_NE(found.warnings[0].find("a reduce_factor of 300"), std::string::npos)
      << found.warnings[0];
}

TEST(Simulate, AveragingFollowsTheSlowestCluster) {
  Plan plan = make_pipelines({{{0.01, 0.02}}, {{0.02, 0.04}}, {{0.01, 0.01}}}, {.mbps = 8});
  plan.rings = {{.id = 0, .nbytes = 1000, .holders = {0, 0, 0}}};
  const Simulation found = simulate(plan, {.seconds = 90, .reduce_factor = 10});
  for (const ClusterRun& cluster : found.clusters) {
    EXPECT_NEAR(cluster.machines[0].averaging.interval_seconds, 0.6, 1e-6);
    EXPECT_EQ(cluster.machines[0].averaging.rounds, 150U);
  }
}

TEST(Simulate, OneClusterHasNothingToAverage) {
  Plan plan = make_pipelines({{{0.01, 0.02}}}, {});
  plan.rings = {{.id = 0, .nbytes = 1000, .holders = {0}}};
  const Simulation found = simulate(plan, {.seconds = 9, .reduce_factor = 1});
  EXPECT_EQ(found.clusters[0].machines[0].averaging.rounds, 0U);
  const auto json = nlohmann::json::parse(to_json(found, plan));
  EXPECT_TRUE(json["clusters"][0]["machines"][0]["averaging"].is_null());
}

TEST(Simulate, SaysWhetherTheMemoryIsEnough) {
  const std::vector<Compute> stages(3, Compute{.forward = 0.01, .backward = 0.02});
  Plan plan = make_pipelines({stages}, {});
  plan.clusters[0].stages[0].memory = {.weights = 1'000'000'000,
                                       .versions = 2'000'000'000,
                                       .gradients = 1'000'000'000,
                                       .optimizer = 2'000'000'000,
                                       .activations = 6'000'000'000};
  plan.pool[0].ram_gb = 9;
  const Simulation async = simulate(plan, {.seconds = 1});
  EXPECT_FALSE(async.fits());
  EXPECT_EQ(async.clusters[0].machines[0].memory_needed, 12'000'000'000);
  ASSERT_EQ(async.warnings.size(), 1U);
  EXPECT_EQ(async.warnings[0], "Node 10 needs 12.0 GB for its stage and gives 9.00 GB.");
  // No older versions; three micro-passes in flight, a quarter of 2 GB each.
  const Simulation sync = simulate(plan, {.seconds = 1, .schedule = Schedule::kSync});
  EXPECT_EQ(sync.clusters[0].machines[0].memory_needed, 5'500'000'000);
  EXPECT_TRUE(sync.fits());
  EXPECT_TRUE(sync.warnings.empty());
}

TEST(Simulate, JsonHasTheDocumentedKeys) {
  const std::vector<Compute> stages(2, Compute{.forward = 0.01, .backward = 0.02});
  Plan plan = make_pipelines({stages, stages}, {.forward_bytes = 1000});
  plan.rings = {{.id = 0, .nbytes = 1000, .holders = {0, 0}},
                {.id = 1, .nbytes = 1000, .holders = {1, 1}}};
  plan.pool[0].address = "\xff\"<odd>";
  const auto json =
      nlohmann::json::parse(to_json(simulate(plan, {.seconds = 10, .reduce_factor = 8}), plan));
  EXPECT_EQ(json["schedule"], "async");
  EXPECT_EQ(json["clusters"].size(), 2U);
  const auto& cluster = json["clusters"][1];
  EXPECT_EQ(cluster["bottleneck"]["kind"], "machine");
  EXPECT_EQ(cluster["bottleneck"]["node"], 12);
  const auto& machine = cluster["machines"][1];
  EXPECT_EQ(machine["node"], 13);
  EXPECT_EQ(machine["idle"].size(), kIdleReasons);
  EXPECT_TRUE(machine["idle"].contains("in_flight"));
  EXPECT_GT(machine["averaging"]["rounds"], 0);
  EXPECT_EQ(machine["delay"]["max"], 0);
  EXPECT_EQ(machine["memory"]["given"], 8'000'000'000);
  plan.batch.reset();
  const auto unknown = nlohmann::json::parse(to_json(simulate(plan, {.seconds = 1}), plan));
  EXPECT_TRUE(unknown["samples_per_second"].is_null());
}

TEST(Simulate, LongRunGoesOnAsItSettled) {
  const Plan plan = make_pipelines({{{0.0013, 0.0027}, {0.0011, 0.0019}, {0.0007, 0.0023}}},
                                   {.forward_bytes = 40'000, .backward_bytes = 30'000});
  for (const Schedule schedule : {Schedule::kAsync, Schedule::kSync}) {
    const Simulation brief = simulate(plan, {.seconds = 15, .schedule = schedule});
    const Simulation whole = simulate(plan, {.seconds = 1500, .schedule = schedule});
    EXPECT_NEAR(whole.passes_per_second, brief.passes_per_second, 0.001 * brief.passes_per_second);
    for (std::size_t k = 0; k < 3; ++k) {
      const MachineRun& one = brief.clusters[0].machines[k];
      const MachineRun& other = whole.clusters[0].machines[k];
      EXPECT_NEAR(one.busy(), other.busy(), 0.002);
      EXPECT_NEAR(static_cast<double>(other.updates), 100.0 * static_cast<double>(one.updates),
                  0.1 * static_cast<double>(one.updates));
      EXPECT_NEAR(other.mean_delay, one.mean_delay, 0.01);
      EXPECT_EQ(other.max_delay, one.max_delay);
      double sum = other.busy();
      for (const double share : other.idle) {
        sum += share;
      }
      EXPECT_NEAR(sum, 1.0, 1e-9);
    }
  }
}

TEST(Simulate, CanBeInterrupted) {
  const Plan plan = make_pipelines({{{0.0001, 0.0002}, {0.0001, 0.0002}}}, {});
  SimulateOptions options{.seconds = 600, .jitter = 0.3, .timeline_seconds = 600};
  options.check_interrupted = [] { throw std::runtime_error("stop"); };
  EXPECT_THROW(simulate(plan, options), std::runtime_error);
}

TEST(Simulate, RefusesWhatMakesNoSense) {
  const Plan plan = make_pipelines({{{0.01, 0.02}}}, {});
  EXPECT_THROW(simulate(plan, {.seconds = 0}), std::invalid_argument);
  EXPECT_THROW(simulate(plan, {.seconds = NAN}), std::invalid_argument);
  EXPECT_THROW(simulate(plan, {.micro_batches = 0}), std::invalid_argument);
  EXPECT_THROW(simulate(plan, {.jitter = 1}), std::invalid_argument);
  EXPECT_THROW(simulate(plan, {.timeline_seconds = -1}), std::invalid_argument);
  EXPECT_THROW(simulate(plan, {.churn = {.absences = {{.machine = 9}}}}), std::invalid_argument);
  EXPECT_THROW(simulate(plan, {.churn = {.absences = {{.machine = 10, .from = 5, .to = 4}}}}),
               std::invalid_argument);
  EXPECT_THROW(simulate(plan, {.churn = {.mean_present_seconds = -1}}), std::invalid_argument);
}

TEST(Simulate, RefusesAPlanThatTakesNoTime) {
  EXPECT_THROW(simulate(make_pipelines({{{0, 0}, {0, 0}}}, {}), {}), std::invalid_argument);
  EXPECT_THROW(simulate(make_pipelines({{{NAN, 0}}}, {}), {}), std::invalid_argument);
  EXPECT_THROW(simulate(make_pipelines({{{1e-9, 1e-9}}}, {}), {}), std::invalid_argument);
  // Latency alone is time enough.
  const Plan plan = make_pipelines({{{0, 0}, {0, 0}}}, {.latency_ms = 5});
  EXPECT_NEAR(rate(plan, {.seconds = 10}), 200, 1);
  EXPECT_NEAR(rate(plan, {.seconds = 10, .schedule = Schedule::kSync}), 50, 1);
}

}  // namespace
}  // namespace ravnest::planner
