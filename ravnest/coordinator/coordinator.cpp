#include "ravnest/coordinator/coordinator.h"

#include "ravnest/base/error.h"

namespace ravnest::coordinator {

namespace {

std::filesystem::path made(std::filesystem::path folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::kIo, concat("[coordinator] cannot make the folder '", folder.string(),
                                       "': ", error.message(), "."));
  }
  return folder;
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, Now now)
    : snapshot_every_(options.snapshot_every),
      store_(made(options.data) / "log.sqlite"),
      artifacts_(options.data / "artifacts", options.artifacts),
      state_{.durable = store_.load(), .live = {}} {
  // Nobody is connected yet: what there is to do at a boot is told when providers join.
  handle(Boot{}, now);
}

Decision Coordinator::handle(const Event& event, Now now) {
  if (is_broken_) {
    throw Error(ErrorKind::kIo, "[coordinator] cannot go on: its log could not be written.");
  }
  Decision decision = decide(state_, event, now);
  if (!decision.changes.empty()) {
    is_broken_ = true;
    store_.append(decision.changes);
    if (store_.length() >= snapshot_every_) {
      store_.write_snapshot(state_.durable);
    }
    is_broken_ = false;
  }
  for (const Action& action : decision.actions) {
    if (const auto* drop = std::get_if<DropArtifact>(&action)) {
      artifacts_.drop(drop->hash);
    }
  }
  std::visit([this](const auto& each) { settle_file(each); }, event);
  return decision;
}

std::size_t Coordinator::sweep() {
  return artifacts_.sweep(state_.durable.references, std::chrono::hours(1));
}

}  // namespace ravnest::coordinator
