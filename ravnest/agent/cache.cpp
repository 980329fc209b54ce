#include "ravnest/agent/cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/trust/digest.h"

namespace ravnest::agent {

namespace fs = std::filesystem;

Cache::Cache(fs::path folder, std::int64_t most_bytes, std::int64_t free_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes), free_bytes_(free_bytes) {
  fs::create_directories(folder_);
}

fs::path Cache::get(const control::Client& client, const coordinator::Hash& hash,
                    const control::TransferOptions& transfer) {
  if (!coordinator::is_hash(hash)) {
    throw_invalid("[agent] expected the SHA-256 of a file, got something else.");
  }
  fs::path path = folder_ / hash;
  if (is_good(hash)) {
    fs::last_write_time(path, fs::file_time_type::clock::now());
    return path;
  }
  control::TransferOptions options = transfer;
  bool has_room = false;
  options.progress = [&](std::int64_t done, std::int64_t size) {
    if (!std::exchange(has_room, true)) {
      make_room(size, path.string() + ".part");
    }
    if (transfer.progress) {
      transfer.progress(done, size);
    }
  };
  client.download(hash, path, options);
  good_.insert(hash);
  return path;
}

bool Cache::is_good(const coordinator::Hash& hash) {
  const fs::path path = folder_ / hash;
  if (!fs::exists(path)) {
    return false;
  }
  if (!good_.contains(hash)) {
    if (trust::to_hex(trust::sha256_file(path)) != hash) {
      fs::remove(path);
      return false;
    }
    good_.insert(hash);
  }
  return true;
}

void Cache::place(const control::Client& client, const coordinator::Hash& hash,
                  const fs::path& target, const control::TransferOptions& transfer) {
  const fs::path source = get(client, hash, transfer);
  // Nobody writes through the other name: a process that is closed in cannot change modes.
  fs::permissions(source, fs::perms::owner_read);
  std::error_code error;
  fs::create_hard_link(source, target, error);
  if (error) {
    fs::copy_file(source, target, fs::copy_options::overwrite_existing);
  }
}

// For a file of this size, some of which may be there already.
void Cache::make_room(std::int64_t nbytes, const fs::path& coming) const {
  struct Entry {
    fs::path path;
    fs::file_time_type time;
    std::int64_t nbytes;
  };
  std::vector<Entry> entries;
  std::int64_t total = nbytes;
  std::int64_t missing = nbytes;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const auto size = static_cast<std::int64_t>(entry.file_size());
    if (entry.path() == coming) {
      missing -= size;
      continue;
    }
    entries.push_back({entry.path(), entry.last_write_time(), size});
    total += size;
  }
  std::ranges::sort(entries, std::greater{}, &Entry::time);
  const auto is_full = [&] {
    return static_cast<std::int64_t>(fs::space(folder_).available) < missing + free_bytes_;
  };
  while (!entries.empty() && (total > most_bytes_ || is_full())) {
    std::error_code ignored;
    fs::remove(entries.back().path, ignored);
    total -= entries.back().nbytes;
    entries.pop_back();
  }
  if (is_full()) {
    throw Error(ErrorKind::kIo, concat("[agent] expected ", format_bytes(missing + free_bytes_),
                                       " free on the disk of '", folder_.string(),
                                       "', for a file that comes and to spare, got less."));
  }
}

}  // namespace ravnest::agent
