#include "ravnest/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ravnest/base/error.h"

namespace ravnest {

namespace {

// The rename itself must survive a power cut too.
void sync_folder(const std::filesystem::path& target) {
  const auto folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

}  // namespace

void sync_disk_of(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int failure = fd < 0 || ::syncfs(fd) != 0 ? errno : 0;
  if (fd >= 0) {
    ::close(fd);
  }
  if (failure != 0) {
    errno = failure;
    throw_io(folder, "write");
  }
}

AtomicFile::AtomicFile(std::filesystem::path target, FileAccess access)
    : target_(std::move(target)) {
  std::error_code unknown;
  if (std::filesystem::is_symlink(target_, unknown)) {
    target_ = std::filesystem::weakly_canonical(target_, unknown);
  }
  const auto status = std::filesystem::status(target_, unknown);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw Error(ErrorKind::kIo,
                concat("[base] cannot write '", target_.string(), "': it is not a regular file."));
  }
  temporary_ = target_.string() + ".XXXXXX";
  fd_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (fd_ < 0) {
    throw_io(target_, "write");
  }
  if (access == FileAccess::kUsual) {  // mkostemp makes it the owner's alone
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::fchmod(fd_, 0666 & ~mask);
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    ::close(fd_);
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      throw_io(target_, "write");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::write(const std::string& text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::commit(Durability durability) {
  const bool syncs = durability == Durability::kAtCommit;
  if ((syncs && ::fsync(fd_) != 0) || ::rename(temporary_.c_str(), target_.c_str()) != 0) {
    throw_io(target_, "write");
  }
  ::close(fd_);
  fd_ = -1;
  if (syncs) {
    sync_folder(target_);
  }
}

}  // namespace ravnest
