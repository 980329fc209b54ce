#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "ravnest/coordinator/change.h"
#include "ravnest/coordinator/durable.h"

namespace ravnest::coordinator {

// The log of changes, in a SQLite file (write-ahead log, synced at every commit). What append() has
// returned for is there after any crash; what it has not is there whole or not at all. From time to
// time a snapshot takes the place of the changes before it. One process at a time has the file
// open. One thread.
class Store {
 public:
  // Opens the file or makes it. Throws std::invalid_argument where it is damaged, another
  // program's, or of another version, and Error(kIo) where it cannot be opened or another process
  // has it.
  explicit Store(const std::filesystem::path& file);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // The state that the file holds; comes before all that follow. Throws as the constructor does.
  Durable load();

  // Adds changes, all or none, and syncs. Throws Error(kIo) where the disk refuses: they are not
  // there then, and the caller's state is ahead of the log.
  void append(std::span<const Change> changes);

  // So many appends lie behind the snapshot.
  std::int64_t length() const { return length_; }
  // The state with all changes so far takes their place.
  void write_snapshot(const Durable& durable);

 private:
  class Database;

  std::pair<std::int64_t, Durable> load_snapshot();

  std::unique_ptr<Database> database_;
  std::int64_t sequence_ = 0;  // of the last append
  std::int64_t length_ = 0;
};

}  // namespace ravnest::coordinator
