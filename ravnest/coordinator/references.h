#pragma once

#include <vector>

#include "ravnest/coordinator/durable.h"

namespace ravnest::coordinator {

// Counts who refers to an artifact. An empty hash refers to nothing. Those that drop give the
// artifacts that nothing refers to any more by adding them to `released`.

void add_reference(Durable& durable, const Hash& hash);
void drop_reference(Durable& durable, const Hash& hash, std::vector<Hash>& released);

// Of all that a job refers to: Program, plan, checkpoints, results.
void add_references(Durable& durable, const Job& job);
void drop_references(Durable& durable, const Job& job, std::vector<Hash>& released);

void add_references(Durable& durable, const JobPlan& plan);
void drop_references(Durable& durable, const JobPlan& plan, std::vector<Hash>& released);
void drop_references(Durable& durable, const Cluster& cluster, std::vector<Hash>& released);
void drop_references(Durable& durable, const std::vector<Piece>& pieces,
                     std::vector<Hash>& released);

}  // namespace ravnest::coordinator
