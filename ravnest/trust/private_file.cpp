#include "ravnest/trust/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ravnest/base/atomic_file.h"
#include "ravnest/base/error.h"

namespace ravnest::trust {

namespace {

constexpr mode_t kOthers = 077;

class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path)
      // Not to wait for a writer, should it be a pipe.
      : value_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (value_ >= 0) {
      ::close(value_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  const int value_;
};

std::string octal(mode_t mode) {
  std::ostringstream text;
  text << std::oct << (mode & 07777U);
  return std::move(text).str();
}

std::string read_file(const std::filesystem::path& path, std::size_t limit, mode_t forbidden) {
  const Descriptor file(path);
  struct stat status{};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    throw Error(ErrorKind::kIo,
                concat("[trust] cannot read '", path.string(), "': ", std::strerror(errno), "."));
  }
  if (!S_ISREG(status.st_mode) || static_cast<std::size_t>(status.st_size) > limit) {
    throw_invalid("[trust] expected a regular file of at most ", limit, " bytes, got '",
                  path.string(), "'.");
  }
  if ((status.st_mode & forbidden) != 0) {
    throw_invalid("[trust] expected a file that its owner alone may read, got mode ",
                  octal(status.st_mode), "; run: chmod 600 '", path.string(), "'.");
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t size = ::read(file.get(), text.data() + done, text.size() - done);
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size <= 0) {
      throw Error(ErrorKind::kIo, concat("[trust] cannot read '", path.string(), "' whole."));
    }
    done += static_cast<std::size_t>(size);
  }
  return text;
}

void write_file(const std::filesystem::path& path, const std::string& text, FileAccess access) {
  AtomicFile file(path, access);
  file.write(text);
  file.commit();
}

}  // namespace

void write_private_file(const std::filesystem::path& path, const std::string& text) {
  write_file(path, text, FileAccess::kOwnerAlone);
}

std::string read_private_file(const std::filesystem::path& path, std::size_t limit) {
  return read_file(path, limit, kOthers);
}

void write_public_file(const std::filesystem::path& path, const std::string& text) {
  write_file(path, text, FileAccess::kUsual);
}

std::string read_public_file(const std::filesystem::path& path, std::size_t limit) {
  return read_file(path, limit, 0);
}

}  // namespace ravnest::trust
