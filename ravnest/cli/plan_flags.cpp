#include "ravnest/cli/plan_flags.h"

#include "ravnest/base/atomic_file.h"
#include "ravnest/cli/validators.h"

namespace ravnest::cli {

namespace {

CLI::Validator cluster_count() {
  const CLI::Validator number = whole_number(1, 1'000'000);
  const auto check = [number](const std::string& text) -> std::string {
    std::string copy = text;
    return text == "auto" || number(copy).empty()
               ? std::string()
               : "expected 'auto' or a whole number of 1 or more, got '" + text + "'";
  };
  return CLI::Validator(check, "");
}

}  // namespace

void PlanFlags::add_to(CLI::App& command) {
  command.add_option("--model", model, "A .pt2 archive or TorchScript file")
      ->required()
      ->type_name("FILE");
  command.add_option("--nodes", nodes, "The pool: addresses, RAM (GB), bandwidth (Mbps)")
      ->type_name("FILE")
      ->capture_default_str();
  command
      .add_option("--clusters", clusters,
                  "How many, or 'auto' for the fastest (default: three machines or more in each)")
      ->check(cluster_count())
      ->type_name("N");
  command.add_option("--batch", batch, "Samples in a pass (default: as captured)")
      ->check(whole_number(1, 1'000'000'000))
      ->type_name("N");
  command.add_option("--optimizer", optimizer, "Whose state to count: sgd, momentum, adam")
      ->check(one_of({"sgd", "momentum", "adam"}))
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--seed", seed, "Of the genetic algorithm")
      ->check(whole_number(0, std::numeric_limits<std::int64_t>::max()))
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--population", population, "Of the genetic algorithm (default: by the pool)")
      ->check(whole_number(2, 10'000))
      ->type_name("N");
  command.add_option("--generations", generations, "Of the same (default: by the pool)")
      ->check(whole_number(1, 100'000))
      ->type_name("N");
}

planner::PlanOptions PlanFlags::options() const {
  planner::PlanOptions options;
  options.seed = seed;
  options.optimizer = graph::find_optimizer(optimizer).value();
  options.population = population;
  options.generations = generations;
  if (clusters == "auto") {
    options.clusters = planner::AutoClusters{};
  } else if (!clusters.empty()) {
    options.clusters = static_cast<std::size_t>(std::stoull(clusters));
  }
  if (batch > 0) {
    options.batch = batch;
  }
  return options;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace ravnest::cli
