#include "ravnest/coordinator/plan_job.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/base/in_parallel.h"
#include "ravnest/coordinator/shapes.h"
#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/package/package.h"
#include "ravnest/planner/plan.h"

namespace ravnest::coordinator {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSubModel = "submod.pt2";

// A folder until the end of the scope.
class Scratch {
 public:
  explicit Scratch(fs::path path) : path_(std::move(path)) { clear(); }
  ~Scratch() { clear(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const fs::path& path() const { return path_; }

 private:
  void clear() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  fs::path path_;
};

std::vector<planner::Machine> machines_of(const std::vector<PoolEntry>& pool) {
  std::map<MemberId, std::int64_t> ids;
  for (const PoolEntry& entry : pool) {
    ids.emplace(entry.provider, static_cast<std::int64_t>(ids.size()));
  }
  std::vector<planner::Machine> machines;
  for (const PoolEntry& entry : pool) {
    planner::Machine& machine = machines.emplace_back();
    machine.id = ids.at(entry.provider);
    machine.ram_gb = entry.measured.ram_gb;
    machine.mbps = entry.measured.mbps;
    machine.latency_ms = entry.measured.latency_ms;
    if (entry.measured.gflops > 0.0) {
      machine.gflops = entry.measured.gflops;
    }
    for (const auto& [peer, link] : entry.measured.links) {
      if (const auto id = ids.find(peer); id != ids.end()) {
        machine.links.emplace(id->second, link);
      }
    }
  }
  return machines;
}

planner::PlanOptions options_of(const MakePlan& ask, std::size_t clusters,
                                const PlanJobOptions& options) {
  planner::PlanOptions result{.seed = static_cast<std::uint64_t>(ask.options.seed),
                              .check_interrupted = options.check_interrupted};
  if (clusters > 0) {
    result.clusters = clusters;
  }
  if (ask.options.batch > 0) {
    result.batch = ask.options.batch;
  }
  // What is not known takes no more memory than Adam does.
  result.optimizer =
      graph::find_optimizer(ask.options.optimizer).value_or(graph::OptimizerKind::kAdam);
  return result;
}

planner::Plan plan_over_pool(const MakePlan& ask, const graph::Program& program,
                             const PlanJobOptions& options) {
  const std::vector<planner::Machine> machines = machines_of(ask.pool);
  const auto wanted = static_cast<std::size_t>(ask.options.clusters);
  const auto plan_for = [&](std::size_t clusters) {
    return planner::make_plan(program, machines, options_of(ask, clusters, options));
  };
  for (std::size_t clusters = wanted; ask.goes_on && clusters > 1; --clusters) {
    try {
      return plan_for(clusters);
    } catch (const std::invalid_argument&) {  // the pool does not hold so many
    }
  }
  return plan_for(ask.goes_on ? std::min<std::size_t>(wanted, 1) : wanted);
}

// The same plan with places for machines, numbered by cluster and stage.
planner::Plan with_places(const planner::Plan& plan) {
  planner::Plan result = plan;
  result.pool.clear();
  result.spares.clear();
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    for (std::size_t k = 0; k < plan.clusters[c].stages.size(); ++k) {
      planner::Machine place = plan.machine(plan.clusters[c].stages[k]);
      place.id = static_cast<std::int64_t>(result.pool.size());
      place.address = concat("cluster-", c, ".stage-", k, ":1");
      place.links.clear();
      result.clusters[c].stages[k].machine = result.pool.size();
      result.pool.push_back(std::move(place));
    }
  }
  return result;
}

StageShape take_stage(const planner::Stage& stage, const fs::path& node_data,
                      const package::NodeConfig& node, Artifacts& artifacts) {
  StageShape shape{.first_op = static_cast<std::int64_t>(stage.first_op),
                   .last_op = static_cast<std::int64_t>(stage.last_op),
                   .memory_bytes = stage.memory.total()};
  shape.files.push_back(
      {"node.json", artifacts.take_file(node_data / "nodes" / concat("node_", node.id, ".json"))});
  const fs::directory_iterator folder(package::stage_folder(node_data, node));
  const std::vector<fs::directory_entry> entries(begin(folder), end(folder));
  for (const fs::directory_entry& entry : entries) {  // they go
    const std::string name = entry.path().filename().string();
    Hash hash = artifacts.take_file(entry.path());
    if (name == kSubModel) {
      shape.sub_model = std::move(hash);
    } else {
      shape.files.push_back({name, std::move(hash)});
    }
  }
  std::ranges::sort(shape.files, {}, &File::name);
  RAVNEST_CHECK(!shape.sub_model.empty());
  return shape;
}

PlanMade keep_plan(const MakePlan& ask, const graph::Program& program, const planner::Plan& plan,
                   Artifacts& artifacts, const fs::path& scratch) {
  const Shapes shapes = find_shapes(plan);
  const Scratch folder(scratch / concat("plan-", ask.job, "-", ask.epoch));
  const planner::Plan placed = with_places(shapes.plan);
  PlanMade made{.job = ask.job, .epoch = ask.epoch};
  made.plan.id = package::write_plan(program, placed, folder.path());
  std::vector<std::pair<std::size_t, std::size_t>> places;  // cluster, stage
  for (std::size_t c = 0; c < placed.clusters.size(); ++c) {
    made.plan.shapes.emplace_back().stages.resize(placed.clusters[c].stages.size());
    for (std::size_t k = 0; k < placed.clusters[c].stages.size(); ++k) {
      places.emplace_back(c, k);
    }
  }
  in_parallel(places.size(), [&](std::size_t i) {
    const auto [c, k] = places[i];
    const planner::Stage& stage = placed.clusters[c].stages[k];
    const planner::Machine& place = placed.machine(stage);
    made.plan.shapes[c].stages[k] = take_stage(
        stage, folder.path(), {.id = place.id, .address = place.address, .cluster = c}, artifacts);
  });
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    auto& cluster = made.clusters.emplace_back(PlannedCluster{.shape = shapes.by_cluster[c]});
    for (const planner::Stage& stage : plan.clusters[c].stages) {
      cluster.providers.push_back(ask.pool[stage.machine].provider);
    }
  }
  artifacts.sync();
  return made;
}

}  // namespace

PlanAnswer plan_job(const MakePlan& ask, Artifacts& artifacts, const PlanJobOptions& options) {
  const auto failed = [&](const std::exception& error, bool is_final) {
    return PlanFailed{
        .job = ask.job, .epoch = ask.epoch, .reason = error.what(), .is_final = is_final};
  };
  graph::Program program;
  try {
    program = graph::read_pt2(artifacts.get(ask.program), "the job's Program");
  } catch (const std::invalid_argument& error) {
    return failed(error, true);
  }
  planner::Plan plan;
  try {
    plan = plan_over_pool(ask, program, options);
  } catch (const std::logic_error& error) {  // another pool may do, also where the bug is ours
    return failed(error, false);
  }
  try {
    return keep_plan(ask, program, plan, artifacts, options.scratch);
  } catch (const std::invalid_argument& error) {
    return failed(error, true);
  }
}

}  // namespace ravnest::coordinator
