#include "ravnest/transport/grpc/own_sockets.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace ravnest::transport {

namespace {

// The descriptor may be that of something else by now; a file is not.
using File = std::pair<dev_t, ino_t>;

std::optional<File> file_of(int descriptor) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) {
    return std::nullopt;
  }
  return File(status.st_dev, status.st_ino);
}

class Sockets {
 public:
  static Sockets& all() {
    static Sockets& all = *new Sockets();  // forks may come at any time
    static std::once_flag once;
    std::call_once(once, [] {
      ::pthread_atfork([] { all.mutex_.lock(); }, [] { all.mutex_.unlock(); }, [] { all.leave(); });
    });
    return all;
  }

  void add(int descriptor) {
    if (const auto file = file_of(descriptor)) {
      const std::lock_guard lock(mutex_);
      open_[descriptor] = *file;
    }
  }
  void close(int& descriptor) {
    const std::lock_guard lock(mutex_);
    open_.erase(descriptor);
    ::close(std::exchange(descriptor, -1));
  }

 private:
  // In the process that was forked off.
  void leave() {
    for (const auto& [descriptor, file] : open_) {
      if (file_of(descriptor) == file) {
        ::close(descriptor);
      }
    }
    mutex_.unlock();
  }

  std::mutex mutex_;  // guards what follows; held over a fork
  std::map<int, File> open_;
};

}  // namespace

void keep_own(int descriptor) { Sockets::all().add(descriptor); }

void close_own(int& descriptor) {
  if (descriptor >= 0) {
    Sockets::all().close(descriptor);
  }
}

}  // namespace ravnest::transport
