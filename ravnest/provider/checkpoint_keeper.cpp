#include "ravnest/provider/checkpoint_keeper.h"

#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/fault_point.h"

namespace ravnest::provider {

namespace fs = std::filesystem;

namespace {

// The file of a version may be there already, of a run that was set back.
void link(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::remove(to, error);
  fs::create_hard_link(from, to, error);
  if (error) {
    throw Error(ErrorKind::kIo, concat("[provider] cannot link '", from.string(), "' as '",
                                       to.string(), "': ", error.message(), "."));
  }
}

}  // namespace

bool CheckpointKeeper::is_due(std::int64_t passes) {
  const std::int64_t update = passes / options_.update_frequency;
  if (update % kAskedEvery == 0 && is_asked_.exchange(false)) {
    return true;
  }
  return options_.every > 0 && update % options_.every == 0;
}

void CheckpointKeeper::keep(Checkpoint checkpoint) {
  writer_.write([checkpoint = std::move(checkpoint), path = options_.path] {
    write_checkpoint(checkpoint, path);
  });
}

void CheckpointKeeper::share(Checkpoint checkpoint) {
  writer_.write([this, checkpoint = std::move(checkpoint)] {
    write_checkpoint(checkpoint, options_.path);
    fault_point("checkpoint");
    KeptCheckpoint kept{.passes = checkpoint.passes, .file = options_.path};
    if (!options_.folder.empty()) {
      kept.file = options_.folder / concat(checkpoint.passes, ".safetensors");
      link(options_.path, kept.file);
    }
    if (options_.on_kept) {
      options_.on_kept(kept);
    }
  });
}

void CheckpointKeeper::remove() {
  writer_.finish();
  std::error_code ignored;
  fs::remove(options_.path, ignored);
}

}  // namespace ravnest::provider
