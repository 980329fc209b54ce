#pragma once

#include <filesystem>
#include <string>

namespace ravnest {

// A folder that one process at a time may use, for as long as this lives; it is free again when the
// process ends, however that happens.
class FolderLock {
 public:
  // Does not wait. Throws Error(kIo): `taken` where another has it, and where it cannot be opened.
  FolderLock(const std::filesystem::path& folder, const std::string& taken);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace ravnest
