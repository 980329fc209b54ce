#include "ravnest/base/bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "ravnest/base/error.h"

namespace ravnest {

namespace {

// Closes the descriptor when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Bytes Bytes::copy_of(std::span<const std::byte> source) {
  return take(std::vector<std::byte>(source.begin(), source.end()));
}

Bytes Bytes::take(std::vector<std::byte> source) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(source));
  std::span<const std::byte> view(*owner);
  return {std::move(owner), view};
}

Bytes Bytes::map_file(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    throw_io(path, "open");
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) {
    throw_io(path, "look at");
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::kIo, concat("[base] '", path.string(), "' is not a regular file."));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    return {};
  }
  void* address =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (address == MAP_FAILED) {
    throw_io(path, "map");
  }
  std::shared_ptr<const void> owner(address, [size](void* mapped) { ::munmap(mapped, size); });
  return {std::move(owner), {static_cast<const std::byte*>(address), size}};
}

Bytes Bytes::slice(std::size_t offset, std::size_t size) const {
  if (offset > view_.size() || size > view_.size() - offset) {
    throw std::out_of_range("[base] a slice reaches outside its bytes.");
  }
  return {owner_, view_.subspan(offset, size)};
}

}  // namespace ravnest
