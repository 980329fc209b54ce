#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace ravnest {

// Who may read a new file: whom the process's umask lets, or its owner alone from the first byte
// on.
enum class FileAccess { kUsual, kOwnerAlone };

// When the disk has a file for good: at its commit(), or once its writer syncs many together.
enum class Durability { kAtCommit, kAtSync };

// Has the disk keep all that was written where this folder is. Throws Error(kIo).
void sync_disk_of(const std::filesystem::path& folder);

// A file that appears whole or not at all: bytes go to a temporary name beside
// the target; commit() syncs and renames it. Without commit() nothing is left.
// Throws Error(kIo) naming the target when the disk refuses.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path target, FileAccess access = FileAccess::kUsual);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(const std::string& text);
  void commit(Durability durability = Durability::kAtCommit);

 private:
  std::filesystem::path target_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace ravnest
