#include "ravnest/base/new_folder.h"

#include "ravnest/base/error.h"

namespace ravnest {

namespace fs = std::filesystem;

namespace {

// Empty where the folder is there.
fs::path topmost_missing(const fs::path& folder) {
  fs::path missing;
  std::error_code unknown;  // a path that cannot be looked at cannot be made either
  for (fs::path each = fs::absolute(folder).lexically_normal(); !fs::exists(each, unknown);
       each = each.parent_path()) {
    missing = each;
  }
  return missing;
}

}  // namespace

NewFolder::NewFolder(const fs::path& folder) {
  const fs::path missing = topmost_missing(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && !fs::is_directory(folder, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    throw Error(ErrorKind::kIo,
                concat("cannot make the folder '", folder.string(), "': ", error.message(), "."));
  }
  made_ = missing;
}

NewFolder::~NewFolder() {
  if (!made_.empty()) {
    std::error_code ignored;
    fs::remove_all(made_, ignored);
  }
}

}  // namespace ravnest
