#include "ravnest/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ravnest/base/error.h"

namespace ravnest {

FolderLock::FolderLock(const std::filesystem::path& folder, const std::string& taken)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) {
    throw Error(ErrorKind::kIo,
                concat("cannot open '", folder.string(), "': ", std::strerror(errno), "."));
  }
  // Some network file systems have no locks: they lock nobody out.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    throw Error(ErrorKind::kIo, taken);
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace ravnest
