#pragma once

#include <filesystem>

#include "ravnest/coordinator/artifacts.h"
#include "ravnest/coordinator/decide.h"
#include "ravnest/coordinator/store.h"

namespace ravnest::coordinator {

struct CoordinatorOptions {
  std::filesystem::path data;  // log.sqlite, artifacts/
  ArtifactsOptions artifacts;
  std::int64_t snapshot_every = 1000;  // entries of the log
};

// The server without its network: the state, its log, and the files it refers to. One thread calls
// it; artifacts() is for all.
class Coordinator {
 public:
  // Reads the log and boots. Throws as Store and Artifacts do.
  Coordinator(const CoordinatorOptions& options, Now now);

  // Decides, and gives the decision once its changes are in the log and synced. Artifacts are
  // dropped here; the other actions are the shells'. Throws Error(kIo) where the log cannot be
  // written: nothing may be acknowledged, and this object is of no more use.
  Decision handle(const Event& event, Now now);

  const State& state() const { return state_; }
  Artifacts& artifacts() { return artifacts_; }
  // Removes files that came for nothing: nobody referred to them within an hour.
  std::size_t sweep();

 private:
  // What a stage has sent is its job's from the decision on, or of no use to anybody.
  template <typename Each>
  void settle_file(const Each& event) {
    if constexpr (requires {
                    event.from.provider;
                    event.artifact;
                  }) {
      artifacts_.settle(event.artifact, event.from.provider,
                        state_.durable.references.contains(event.artifact));
    }
  }

  const std::int64_t snapshot_every_;
  Store store_;
  Artifacts artifacts_;
  State state_;
  bool is_broken_ = false;
};

}  // namespace ravnest::coordinator
