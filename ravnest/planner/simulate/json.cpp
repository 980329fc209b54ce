#include "ravnest/planner/json.h"

#include "ravnest/base/error.h"
#include "ravnest/planner/simulate/simulate.h"

namespace ravnest::planner {

namespace {

OrderedJson idle_json(const MachineRun& run) {
  OrderedJson json = OrderedJson::object();
  for (std::size_t i = 0; i < kIdleReasons; ++i) {
    json[std::string(name_of(static_cast<Idle>(i)))] = run.idle[i];
  }
  return json;
}

OrderedJson traffic_json(const Traffic& traffic) {
  return {{"bytes", traffic.nbytes}, {"busy", traffic.busy}};
}

OrderedJson averaging_json(const AveragingRun& run) {
  if (run.interval_seconds <= 0) {
    return nullptr;
  }
  return {{"rounds", run.rounds},
          {"bytes", run.nbytes},
          {"round_seconds", run.round_seconds},
          {"interval_seconds", run.interval_seconds},
          {"keeps_up", run.keeps_up()}};
}

OrderedJson machine_json(const MachineRun& run, const Machine& machine) {
  return {{"node", machine.id},
          {"address", machine.address},
          {"updates", run.updates},
          {"busy", run.busy()},
          {"forward", run.forward},
          {"backward", run.backward},
          {"idle", idle_json(run)},
          {"activations", traffic_json(run.activations)},
          {"gradients", traffic_json(run.gradients)},
          {"averaging", averaging_json(run.averaging)},
          {"delay", {{"mean", run.mean_delay}, {"max", run.max_delay}}},
          {"memory", {{"needed", run.memory_needed}, {"given", run.memory_given}}}};
}

OrderedJson cluster_json(const ClusterRun& run, const Plan& plan) {
  const Bottleneck& bottleneck = run.bottleneck;
  const std::size_t machine = run.machines[bottleneck.stage].machine;
  OrderedJson machines = OrderedJson::array();
  for (const MachineRun& one : run.machines) {
    machines.push_back(machine_json(one, plan.pool[one.machine]));
  }
  return {{"passes", run.passes},
          {"lost_passes", run.lost},
          {"running_seconds", run.running_seconds},
          {"passes_per_second", run.passes_per_second},
          {"samples_per_second", or_null(run.samples_per_second)},
          {"bottleneck",
           {{"kind", name_of(bottleneck.kind)},
            {"node", plan.pool[machine].id},
            {"seconds", bottleneck.seconds},
            {"reason", bottleneck.reason}}},
          {"machines", std::move(machines)}};
}

}  // namespace

std::string_view name_of(Schedule schedule) {
  return schedule == Schedule::kAsync ? "async" : "sync";
}

std::string_view name_of(Idle reason) {
  constexpr std::array<std::string_view, kIdleReasons> kNames{
      "start_up", "input", "gradient", "in_flight", "link", "halted", "away"};
  return kNames.at(static_cast<std::size_t>(reason));
}

std::string_view name_of(BottleneckKind kind) {
  constexpr std::array<std::string_view, 4> kNames{"machine", "activations", "gradients",
                                                   "round_trip"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string to_json(const Simulation& simulation, const Plan& plan) {
  const SimulateOptions& options = simulation.options;
  OrderedJson out;
  out["seconds"] = options.seconds;
  out["schedule"] = name_of(options.schedule);
  out["micro_batches"] = options.micro_batches;
  out["reduce_factor"] = options.reduce_factor;
  out["seed"] = options.seed;
  out["passes_per_second"] = simulation.passes_per_second;
  out["samples_per_second"] = or_null(simulation.samples_per_second);
  out["fits"] = simulation.fits();
  out["warnings"] = simulation.warnings;
  out["clusters"] = OrderedJson::array();
  for (const ClusterRun& cluster : simulation.clusters) {
    out["clusters"].push_back(cluster_json(cluster, plan));
  }
  // Addresses come from a file and need not be UTF-8.
  return out.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ravnest::planner
