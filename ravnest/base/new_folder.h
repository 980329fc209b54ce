#pragma once

#include <filesystem>

namespace ravnest {

// A folder that is made where it is not there yet, with those above it; taken away again with all
// that has come into it, unless it is kept. One that was there stays as it is.
class NewFolder {
 public:
  // Throws Error of kind kIo where it cannot be made.
  explicit NewFolder(const std::filesystem::path& folder);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void keep() { made_.clear(); }

 private:
  std::filesystem::path made_;  // the topmost that was not there
};

}  // namespace ravnest
