#include "ravnest/control/part_file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/error.h"

namespace ravnest::control {

namespace {

constexpr std::size_t kMostParts = 4;  // on their way to the file

[[noreturn]] void throw_io(const std::filesystem::path& path) {
  throw Error(ErrorKind::kIo, concat("[control] '", path.string(),
                                     "' cannot be written: ", std::strerror(errno), "."));
}

}  // namespace

PartFile::PartFile(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor_ < 0) {
    throw_io(path_);
  }
  nbytes_ = std::filesystem::file_size(path_);
  if (nbytes_ > 0) {
    hash_.add(Bytes::map_file(path_).view());
  }
  thread_ = std::thread([this] { run(); });
}

PartFile::~PartFile() {
  end_thread();
  ::close(descriptor_);
}

void PartFile::add(ReceivedPart part) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return parts_.size() < kMostParts || error_; });
  if (error_) {
    std::rethrow_exception(error_);
  }
  nbytes_ += part.nbytes;
  parts_.push_back(std::move(part));
  changed_.notify_all();
}

trust::Digest PartFile::finish() {
  end_thread();
  if (error_) {
    std::rethrow_exception(error_);
  }
  return hash_.finish();
}

void PartFile::end_thread() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void PartFile::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !parts_.empty() || is_over_; });
    if (parts_.empty()) {
      return;
    }
    const ReceivedPart part = std::move(parts_.front());
    parts_.pop_front();
    changed_.notify_all();
    lock.unlock();
    try {
      write(part);
    } catch (const Error&) {
      lock.lock();
      error_ = std::current_exception();
      changed_.notify_all();
      return;
    }
    lock.lock();
  }
}

void PartFile::write(const ReceivedPart& part) {
  std::vector<iovec> pieces;
  for (const auto& piece : part.payload) {
    hash_.add(piece);
    pieces.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
  }
  for (auto next = pieces.begin(); next != pieces.end();) {
    const auto count = std::min<std::ptrdiff_t>(pieces.end() - next, IOV_MAX);
    ssize_t written = ::writev(descriptor_, &*next, static_cast<int>(count));
    if (written < 0 && errno != EINTR) {
      throw_io(path_);
    }
    for (; written > 0 && next != pieces.end(); written -= static_cast<ssize_t>(next++->iov_len)) {
      if (static_cast<std::size_t>(written) < next->iov_len) {
        next->iov_base = static_cast<std::byte*>(next->iov_base) + written;
        next->iov_len -= static_cast<std::size_t>(written);
        break;
      }
    }
  }
}

}  // namespace ravnest::control
