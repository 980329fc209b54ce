#include "ravnest/coordinator/references.h"

#include "ravnest/base/error.h"

namespace ravnest::coordinator {

namespace {

template <typename Use>
void for_each(const JobPlan& plan, const Use& use) {
  for (const ClusterShape& shape : plan.shapes) {
    for (const StageShape& stage : shape.stages) {
      use(stage.sub_model);
      for (const File& file : stage.files) {
        use(file.hash);
      }
    }
  }
}

template <typename Use>
void for_each(const Cluster& cluster, const Use& use) {
  for (const auto& [version, stages] : cluster.pending) {
    for (const auto& [stage, artifact] : stages) {
      use(artifact);
    }
  }
  for (const auto& [stage, artifact] : cluster.results) {
    use(artifact);
  }
}

template <typename Use>
void for_each(const std::vector<Piece>& pieces, const Use& use) {
  for (const Piece& piece : pieces) {
    use(piece.artifact);
  }
}

template <typename Use>
void for_each(const Job& job, const Use& use) {
  use(job.program);
  if (job.plan) {
    for_each(*job.plan, use);
  }
  for (const Cluster& cluster : job.clusters) {
    for_each(cluster, use);
  }
  if (job.restore) {
    for_each(job.restore->pieces, use);
  }
  for_each(job.results, use);
}

auto adder(Durable& durable) {
  return [&durable](const Hash& hash) { add_reference(durable, hash); };
}

auto dropper(Durable& durable, std::vector<Hash>& released) {
  return [&](const Hash& hash) { drop_reference(durable, hash, released); };
}

}  // namespace

void add_reference(Durable& durable, const Hash& hash) {
  if (!hash.empty()) {
    ++durable.references[hash];
  }
}

void drop_reference(Durable& durable, const Hash& hash, std::vector<Hash>& released) {
  if (hash.empty()) {
    return;
  }
  const auto found = durable.references.find(hash);
  RAVNEST_CHECK(found != durable.references.end());
  if (--found->second == 0) {
    released.push_back(hash);
    durable.references.erase(found);
  }
}

void add_references(Durable& durable, const Job& job) { for_each(job, adder(durable)); }

void drop_references(Durable& durable, const Job& job, std::vector<Hash>& released) {
  for_each(job, dropper(durable, released));
}

void add_references(Durable& durable, const JobPlan& plan) { for_each(plan, adder(durable)); }

void drop_references(Durable& durable, const JobPlan& plan, std::vector<Hash>& released) {
  for_each(plan, dropper(durable, released));
}

void drop_references(Durable& durable, const Cluster& cluster, std::vector<Hash>& released) {
  for_each(cluster, dropper(durable, released));
}

void drop_references(Durable& durable, const std::vector<Piece>& pieces,
                     std::vector<Hash>& released) {
  for_each(pieces, dropper(durable, released));
}

}  // namespace ravnest::coordinator
