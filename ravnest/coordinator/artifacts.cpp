#include "ravnest/coordinator/artifacts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "ravnest/base/atomic_file.h"
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

struct Upload {
  ~Upload() {
    if (fd >= 0) {
      ::close(fd);
    }
  }

  Hash name;
  fs::path path;
  int fd = -1;  // -1: it was there whole
  std::int64_t size = 0;

  std::mutex mutex;           // one part at a time; guards what follows
  std::int64_t received = 0;  // bytes that the file has
  std::int64_t hashed = 0;    // that are in the hash; the others were left by an earlier try
  trust::Sha256 hash;
};

Artifacts::Artifacts(fs::path folder, ArtifactsOptions options)
    : folder_(std::move(folder)), options_(options) {
  make_folder(folder_ / "parts");
  for (const auto& entry : fs::directory_iterator(folder_ / "parts")) {
    if (!is_hash(entry.path().filename().string())) {
      fs::remove(entry.path());  // one that was being taken
    }
  }
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

void Artifacts::check_size(std::string_view hash, std::int64_t size) const {
  if (size < 0 || size > options_.most_bytes) {
    throw_invalid("[coordinator] expected an artifact of up to ", options_.most_bytes,
                  " bytes, got ", size, ".");
  }
  if (has(hash) && size_of(path_of(hash)) != size) {
    throw_invalid("[coordinator] expected artifact ", hash, " with ", size_of(path_of(hash)),
                  " bytes, got ", size, ".");
  }
}

std::int64_t Artifacts::received(std::string_view hash, std::int64_t size) const {
  check_size(hash, size);
  if (has(hash)) {
    return size;
  }
  const std::int64_t left = size_of(part_of(hash));
  return left < size ? left : 0;  // as open_upload() takes it
}

std::int64_t Artifacts::received(Upload& upload) {
  const std::scoped_lock lock(upload.mutex);
  return upload.received;
}

std::shared_ptr<Upload> Artifacts::begin(std::string_view hash, std::int64_t size,
                                         const std::string& member) {
  const Hash name(hash);
  const std::scoped_lock lock(mutex_);
  check_size(hash, size);
  if (const auto found = uploads_.find(name); found != uploads_.end()) {
    if (auto upload = found->second.lock(); upload && !has(hash)) {
      // Two that are not of one file would write into each other.
      if (upload->size != size) {
        throw_invalid("[coordinator] expected artifact ", hash, " with ", upload->size,
                      " bytes, as it is being sent, got ", size, ".");
      }
      return upload;
    }
  }
  std::erase_if(uploads_, [](const auto& entry) { return entry.second.expired(); });
  if (uploads_.size() >= options_.most_uploads) {
    throw Error(ErrorKind::kIo, concat("[coordinator] cannot take more than ",
                                       options_.most_uploads, " uploads at a time."));
  }
  charge(name, size, member);
  auto upload = open_upload(name, size);
  if (upload->fd >= 0) {
    uploads_.insert_or_assign(name, upload);
    if (size == 0) {
      finish(*upload);
    }
  }
  return upload;
}

// Takes up what an earlier try left. With mutex_ held.
std::shared_ptr<Upload> Artifacts::open_upload(const Hash& hash, std::int64_t size) {
  auto upload = std::make_shared<Upload>();
  upload->name = hash;
  upload->path = part_of(hash);
  upload->size = size;
  if (has(hash)) {
    upload->received = size;
    return upload;
  }
  upload->fd = ::open(upload->path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (upload->fd < 0) {
    throw_io("write", upload->path);
  }
  std::int64_t left = size_of(upload->path);
  if (left >= size) {  // not what is announced, or to be checked again: from the start
    if (::ftruncate(upload->fd, 0) != 0) {
      throw_io("write", upload->path);
    }
    nbytes_ -= std::exchange(left, 0);
  }
  upload->received = left;
  return upload;
}

// With mutex_ held, as the next two. What another has begun is on that one's account.
void Artifacts::charge(const Hash& hash, std::int64_t size, const std::string& member) {
  const auto known = sent_.find(hash);
  const bool is_own = known != sent_.end() && known->second.member == member;
  if (member.empty() || has(hash) || (known != sent_.end() && !is_own)) {
    return;
  }
  Account others;
  if (const auto account = accounts_.find(member); account != accounts_.end()) {
    others = account->second;
  }
  if (is_own) {
    others.nbytes -= known->second.nbytes;
    --others.files;
  }
  const std::int64_t room =
      std::max<std::int64_t>(0, std::min(options_.most_bytes - nbytes_, disk_room()));
  const std::int64_t to_come = size - std::min(size, size_of(part_of(hash)));
  if (others.files >= options_.most_sent || others.nbytes > room / 2 - to_come) {
    throw Error(ErrorKind::kIo,
                concat("[coordinator] cannot keep ", size, " bytes more of one member, who has ",
                       others.nbytes, " in ", others.files, " files here: at most ",
                       options_.most_sent, " files, and half of the room that is left (", room / 2,
                       "). It is free again when jobs end, or after an hour."));
  }
  credit(hash);
  sent_[hash] = {.member = member, .nbytes = size};
  accounts_[member] = {.nbytes = others.nbytes + size, .files = others.files + 1};
}

void Artifacts::credit(const Hash& hash) {
  const auto sent = sent_.find(hash);
  if (sent == sent_.end()) {
    return;
  }
  const auto account = accounts_.find(sent->second.member);
  account->second.nbytes -= sent->second.nbytes;
  if (--account->second.files == 0) {
    accounts_.erase(account);
  }
  sent_.erase(sent);
}

// Beside what is left for the log.
std::int64_t Artifacts::disk_room() const {
  std::error_code error;
  const auto space = fs::space(folder_, error);
  return error ? options_.most_bytes
               : static_cast<std::int64_t>(space.available) - options_.free_bytes;
}

void Artifacts::settle(const Hash& hash, const std::string& member, bool is_used) {
  {
    const std::scoped_lock lock(mutex_);
    const auto sent = sent_.find(hash);
    if (sent == sent_.end() || sent->second.member != member || !has(hash)) {
      return;
    }
    credit(hash);
  }
  if (!is_used) {
    drop(hash);
  }
}

void Artifacts::add_bytes(std::int64_t count) {
  const std::scoped_lock lock(mutex_);
  if (count > options_.most_bytes - nbytes_) {
    throw Error(ErrorKind::kIo, concat("[coordinator] cannot keep more than ", options_.most_bytes,
                                       " bytes of artifacts."));
  }
  if (count > 0 && count > disk_room()) {
    throw Error(ErrorKind::kIo,
                concat("[coordinator] cannot keep an artifact: the disk of ", folder_.string(),
                       " has less than ", options_.free_bytes, " bytes left."));
  }
  nbytes_ += count;
}

std::int64_t Artifacts::put(Upload& upload, std::int64_t offset, std::span<const std::byte> part) {
  const std::scoped_lock lock(upload.mutex);
  const auto size = static_cast<std::int64_t>(part.size());
  if (offset != upload.received || size > upload.size - offset) {
    throw_invalid("[coordinator] expected a part at ", upload.received, " of ", upload.size,
                  " bytes, got ", size, " bytes at ", offset, ".");
  }
  if (upload.fd < 0 || part.empty()) {
    return upload.received;  // it is there, or this is nothing
  }
  if (upload.hashed < upload.received) {
    upload.hash.add(Bytes::map_file(upload.path).view());
    upload.hashed = upload.received;
  }
  add_bytes(size);
  try {
    write_all(upload.fd, part, upload.path);
  } catch (...) {
    // Some may have been written: the file is cut back to what is counted.
    static_cast<void>(::ftruncate(upload.fd, upload.received));
    add_bytes(-size);
    throw;
  }
  upload.hash.add(part);
  upload.received += size;
  upload.hashed = upload.received;
  if (upload.received < upload.size) {
    return upload.received;
  }
  const std::scoped_lock all(mutex_);
  return finish(upload);
}

// With mutex_ held: from here on the next begin() opens another.
std::int64_t Artifacts::finish(Upload& upload) {
  uploads_.erase(upload.name);
  if (const std::string found = trust::to_hex(upload.hash.finish()); found != upload.name) {
    ::unlink(upload.path.c_str());
    nbytes_ -= upload.received;
    credit(upload.name);
    throw_invalid("[coordinator] expected bytes with the hash ", upload.name, ", got ", found, ".");
  }
  if (::fsync(upload.fd) != 0) {
    throw_io("write", upload.path);
  }
  place(upload.path, upload.name, upload.size);
  sync_folder(folder_);
  return upload.size;
}

Hash Artifacts::take_file(const fs::path& file) {
  const Hash hash = trust::to_hex(trust::sha256_file(file));
  std::error_code error;
  std::error_code ignored;
  if (has(hash)) {
    fs::remove(file, ignored);
    return hash;
  }
  // Beside the uploads, so that nobody who sends the same one is in the way.
  const std::int64_t size = size_of(file);
  add_bytes(size);
  const fs::path taken = folder_ / "parts" / concat("taken-", ++taken_);
  fs::rename(file, taken, error);
  if (error == std::errc::cross_device_link && fs::copy_file(file, taken, error)) {
    fs::remove(file, ignored);
  }
  if (error) {
    fs::remove(taken, ignored);
    add_bytes(-size);
    throw Error(ErrorKind::kIo,
                concat("[coordinator] cannot keep '", file.string(), "': ", error.message(), "."));
  }
  fs::last_write_time(taken, fs::file_time_type::clock::now(), ignored);  // its age, for sweep()
  const std::scoped_lock lock(mutex_);
  place(taken, hash, size);
  return hash;
}

// With mutex_ held. A file of that name has the same bytes, and is as good.
void Artifacts::place(const fs::path& file, const Hash& hash, std::int64_t size) {
  if (has(hash)) {
    nbytes_ -= size;
  }
  if (::rename(file.c_str(), path_of(hash).c_str()) != 0) {
    throw_io("write", path_of(hash));
  }
}

void Artifacts::sync() const { sync_disk_of(folder_); }

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
    credit(Hash(hash));
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
  const auto is_sent = [&](const std::string& name) {
    const auto upload = uploads_.find(name);
    return upload != uploads_.end() && !upload->second.expired();
  };
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::error_code error;
    if (entry.is_regular_file(error) && is_hash(name) && !references.contains(name) &&
        !is_sent(name) && entry.last_write_time(error) <= limit) {
      old.push_back(entry.path());
    }
  }
  for (const fs::path& path : old) {
    nbytes_ -= size_of(path);
    ::unlink(path.c_str());
    credit(path.filename().string());
  }
  return old.size();
}

std::int64_t Artifacts::nbytes() const {
  const std::scoped_lock lock(mutex_);
  return nbytes_;
}

}  // namespace ravnest::coordinator
