#include "ravnest/coordinator/artifacts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "ravnest/base/error.h"
#include "ravnest/trust/digest.h"

namespace ravnest::coordinator {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void throw_io(const char* verb, const fs::path& path) {
  throw Error(ErrorKind::kIo, concat("[coordinator] cannot ", verb, " '", path.string(),
                                     "': ", std::strerror(errno), "."));
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::kIo, concat("[coordinator] cannot make the folder '", folder.string(),
                                       "': ", error.message(), "."));
  }
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

std::int64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

std::int64_t size_of_folder(const fs::path& folder) {
  std::int64_t nbytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      nbytes += size_of(entry.path());
    }
  }
  return nbytes;
}

void write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      throw_io("write", path);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

}  // namespace

// An upload under way; its file has `received` bytes, which are in the hash.
struct Artifacts::Upload {
  ~Upload() {
    if (fd >= 0) {
      ::close(fd);
    }
  }

  std::mutex mutex;  // one part at a time
  fs::path path;
  int fd = -1;
  std::int64_t size = 0;
  std::int64_t received = 0;
  bool is_synced = true;
  trust::Sha256 hash;
};

Artifacts::Artifacts(fs::path folder, ArtifactsOptions options)
    : folder_(std::move(folder)), options_(options) {
  make_folder(folder_ / "parts");
  nbytes_ = size_of_folder(folder_) + size_of_folder(folder_ / "parts");
}

Artifacts::~Artifacts() = default;

fs::path Artifacts::path_of(std::string_view hash) const {
  if (!is_hash(hash)) {
    throw_invalid("[coordinator] expected a SHA-256 of 64 hexadecimal digits, got a name of ",
                  hash.size(), " characters.");
  }
  return folder_ / hash;
}

fs::path Artifacts::part_of(std::string_view hash) const {
  return folder_ / "parts" / path_of(hash).filename();
}

bool Artifacts::has(std::string_view hash) const {
  std::error_code error;
  return fs::is_regular_file(path_of(hash), error);
}

std::int64_t Artifacts::begin(std::string_view hash, std::int64_t size) {
  const fs::path whole = path_of(hash);
  if (size < 0 || size > options_.most_bytes) {
    throw_invalid("[coordinator] expected an artifact of up to ", options_.most_bytes,
                  " bytes, got ", size, ".");
  }
  const Hash name(hash);
  std::shared_ptr<Upload> upload;
  {
    const std::scoped_lock lock(mutex_);
    if (has(hash)) {
      if (size_of(whole) != size) {
        throw_invalid("[coordinator] expected artifact ", hash, " with ", size_of(whole),
                      " bytes, got ", size, ".");
      }
      return size;
    }
    upload = find_upload(name, size);
    if (size == 0) {
      return finish(name, *upload);
    }
  }
  const std::scoped_lock lock(upload->mutex);
  return upload->received;
}

// With mutex_ held, as those that follow.
std::shared_ptr<Artifacts::Upload> Artifacts::find_upload(const Hash& hash, std::int64_t size) {
  const auto found = uploads_.find(hash);
  if (found != uploads_.end() && found->second->size == size) {
    return found->second;
  }
  if (found == uploads_.end() && uploads_.size() >= options_.most_uploads) {
    throw Error(ErrorKind::kIo, concat("[coordinator] cannot take more than ",
                                       options_.most_uploads, " uploads at a time."));
  }
  auto upload = open_upload(hash, size);
  uploads_.insert_or_assign(hash, upload);
  return upload;
}

// Takes up what an earlier try left.
std::shared_ptr<Artifacts::Upload> Artifacts::open_upload(const Hash& hash, std::int64_t size) {
  auto upload = std::make_shared<Upload>();
  upload->path = part_of(hash);
  upload->size = size;
  upload->fd = ::open(upload->path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (upload->fd < 0) {
    throw_io("write", upload->path);
  }
  std::int64_t left = size_of(upload->path);
  if (left >= size) {  // not what is announced, or to be checked again: from the start
    nbytes_ -= left;
    left = 0;
    if (::ftruncate(upload->fd, 0) != 0) {
      throw_io("write", upload->path);
    }
  }
  if (left > 0) {
    upload->hash.add(Bytes::map_file(upload->path).view());
    upload->received = left;
  }
  return upload;
}

void Artifacts::add_bytes(std::int64_t count) {
  const std::scoped_lock lock(mutex_);
  if (count > options_.most_bytes - nbytes_) {
    throw Error(ErrorKind::kIo, concat("[coordinator] cannot keep more than ", options_.most_bytes,
                                       " bytes of artifacts."));
  }
  nbytes_ += count;
}

std::int64_t Artifacts::put(std::string_view hash, std::int64_t offset,
                            std::span<const std::byte> part) {
  const Hash name = path_of(hash).filename();
  std::shared_ptr<Upload> upload;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = uploads_.find(name);
    if (found == uploads_.end()) {
      throw_invalid("[coordinator] expected an upload that was begun, got a part of ", name, ".");
    }
    upload = found->second;
  }
  const std::scoped_lock lock(upload->mutex);
  const auto size = static_cast<std::int64_t>(part.size());
  if (offset != upload->received || size > upload->size - offset) {
    throw_invalid("[coordinator] expected a part at ", upload->received, " of ", upload->size,
                  " bytes, got ", size, " bytes at ", offset, ".");
  }
  add_bytes(size);
  try {
    write_all(upload->fd, part, upload->path);
  } catch (...) {
    // Some may have been written: the file is cut back to what is counted.
    static_cast<void>(::ftruncate(upload->fd, upload->received));
    add_bytes(-size);
    throw;
  }
  upload->hash.add(part);
  upload->received += size;
  if (upload->received < upload->size) {
    return upload->received;
  }
  const std::scoped_lock all(mutex_);
  return finish(name, *upload);
}

std::int64_t Artifacts::finish(const Hash& hash, Upload& upload) {
  const std::shared_ptr<Upload> keep = uploads_.at(hash);
  uploads_.erase(hash);
  if (const std::string found = trust::to_hex(upload.hash.finish()); found != hash) {
    ::unlink(upload.path.c_str());
    nbytes_ -= upload.received;
    throw_invalid("[coordinator] expected bytes with the hash ", hash, ", got ", found, ".");
  }
  if ((upload.is_synced && ::fsync(upload.fd) != 0) ||
      ::rename(upload.path.c_str(), path_of(hash).c_str()) != 0) {
    throw_io("write", path_of(hash));
  }
  if (upload.is_synced) {
    sync_folder(folder_);
  }
  return upload.size;
}

Hash Artifacts::put_file(const fs::path& file) {
  const Bytes bytes =
      size_of(file) == 0 ? Bytes() : Bytes::map_file(file);  // an empty file cannot be mapped
  const Hash hash = trust::to_hex(trust::sha256(bytes.view()));
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (const std::int64_t at = begin(hash, size); at < size) {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto upload = uploads_.find(hash); upload != uploads_.end()) {
        upload->second->is_synced = false;
      }
    }
    put(hash, at, bytes.view().subspan(static_cast<std::size_t>(at)));
  }
  return hash;
}

void Artifacts::sync() const {
  const int fd = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || ::syncfs(fd) != 0) {
    const int error = errno;
    ::close(fd);
    errno = error;
    throw_io("write", folder_);
  }
  ::close(fd);
}

Bytes Artifacts::get(std::string_view hash) const {
  const fs::path path = path_of(hash);
  if (!has(hash)) {
    throw_invalid("[coordinator] expected an artifact that is here, got ", hash, ".");
  }
  return size_of(path) == 0 ? Bytes() : Bytes::map_file(path);
}

bool Artifacts::verify(std::string_view hash) {
  if (!has(hash)) {
    return false;
  }
  if (trust::to_hex(trust::sha256_file(path_of(hash))) == hash) {
    return true;
  }
  drop(hash);
  return false;
}

void Artifacts::drop(std::string_view hash) {
  const fs::path path = path_of(hash);
  const std::scoped_lock lock(mutex_);
  const std::int64_t size = size_of(path);
  if (::unlink(path.c_str()) == 0) {
    nbytes_ -= size;
  } else if (errno != ENOENT) {
    throw_io("remove", path);
  }
}

std::size_t Artifacts::sweep(const std::map<Hash, std::int64_t>& references,
                             std::chrono::seconds age) {
  return sweep_folder(folder_, references, age) + sweep_folder(folder_ / "parts", {}, age);
}

std::size_t Artifacts::sweep_folder(const fs::path& folder,
                                    const std::map<Hash, std::int64_t>& references,
                                    std::chrono::seconds age) {
  const std::scoped_lock lock(mutex_);
  const auto limit = fs::file_time_type::clock::now() - age;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::error_code error;
    if (entry.is_regular_file(error) && is_hash(name) && !references.contains(name) &&
        !uploads_.contains(name) && entry.last_write_time(error) <= limit) {
      old.push_back(entry.path());
    }
  }
  for (const fs::path& path : old) {
    nbytes_ -= size_of(path);
    ::unlink(path.c_str());
  }
  return old.size();
}

std::int64_t Artifacts::nbytes() const {
  const std::scoped_lock lock(mutex_);
  return nbytes_;
}

}  // namespace ravnest::coordinator
