#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "ravnest/provider/checkpoint.h"
#include "ravnest/provider/writer.h"

namespace ravnest::provider {

// A checkpoint that is also somewhere else, for whoever takes it from there.
struct KeptCheckpoint {
  std::int64_t passes = 0;
  std::filesystem::path file;
};

// Writes a stage's checkpoints beside its work. All stages of a cluster keep theirs after the same
// passes, wherever each of them began. Used by the loop's thread, but for ask().
class CheckpointKeeper {
 public:
  struct Options {
    std::filesystem::path path;
    std::filesystem::path folder;  // also gets them, as <passes>.safetensors; empty: none
    std::int64_t every = 0;        // updates; 0: never
    std::int64_t update_frequency = 1;
    std::function<void(const KeptCheckpoint&)> on_kept;  // on a thread of its own
  };

  explicit CheckpointKeeper(Options options) : options_(std::move(options)) {}

  // One at the next update whose number is a multiple of kAskedEvery: stages that are asked at
  // about the same time agree on it. Any thread.
  static constexpr std::int64_t kAskedEvery = 8;
  void ask() { is_asked_ = true; }
  bool is_asked() const { return is_asked_; }  // and it has not come yet

  // After an update: whether one is to be kept now.
  bool is_due(std::int64_t passes);
  // For this node alone.
  void keep(Checkpoint checkpoint);
  // The same, and for others.
  void share(Checkpoint checkpoint);

  // Until the last is written. Throws what writing threw.
  void finish() { writer_.finish(); }
  void remove();

 private:
  const Options options_;
  std::atomic<bool> is_asked_ = false;
  FileWriter writer_;
};

}  // namespace ravnest::provider
