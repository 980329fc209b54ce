#include "ravnest/agent/cache.h"

#include <algorithm>
#include <vector>

#include "ravnest/base/error.h"

namespace ravnest::agent {

namespace fs = std::filesystem;

Cache::Cache(fs::path folder, std::int64_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes) {
  fs::create_directories(folder_);
}

fs::path Cache::get(const control::Client& client, const coordinator::Hash& hash,
                    const control::TransferOptions& transfer) {
  if (!coordinator::is_hash(hash)) {
    throw_invalid("[agent] expected the SHA-256 of a file, got something else.");
  }
  fs::path path = folder_ / hash;
  if (fs::exists(path)) {
    fs::last_write_time(path, fs::file_time_type::clock::now());
  } else {
    client.download(hash, path, transfer);
    make_room();
  }
  return path;
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

void Cache::make_room() const {
  struct Entry {
    fs::path path;
    fs::file_time_type time;
    std::int64_t nbytes;
  };
  std::vector<Entry> entries;
  std::int64_t total = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    entries.push_back(
        {entry.path(), entry.last_write_time(), static_cast<std::int64_t>(entry.file_size())});
    total += entries.back().nbytes;
  }
  std::ranges::sort(entries, std::greater{}, &Entry::time);
  while (total > most_bytes_ && entries.size() > 1) {
    std::error_code ignored;
    fs::remove(entries.back().path, ignored);
    total -= entries.back().nbytes;
    entries.pop_back();
  }
}

}  // namespace ravnest::agent
