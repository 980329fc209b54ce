#pragma once

#include <cstdint>
#include <filesystem>
#include <set>

#include "ravnest/control/client.h"

namespace ravnest::agent {

// Files by their SHA-256, kept between jobs: the same sub-model is fetched once. The oldest go when
// they are more than so many bytes, or the disk is nearly full. Of one thread.
class Cache {
 public:
  // `free_bytes` of the disk are left to who lends the machine.
  Cache(std::filesystem::path folder, std::int64_t most_bytes,
        std::int64_t free_bytes = 1'000'000'000);

  // Fetches it where it is not there, from where it was cut off; what an earlier run of the program
  // left is looked at first, since a machine may have lost its power meanwhile. Throws as
  // Client::download does, and Error(kIo) where the disk has no room.
  std::filesystem::path get(const control::Client& client, const coordinator::Hash& hash,
                            const control::TransferOptions& transfer = {});
  // `target` becomes the file, to be read alone: the same bytes on disk where the file system can.
  void place(const control::Client& client, const coordinator::Hash& hash,
             const std::filesystem::path& target, const control::TransferOptions& transfer = {});

 private:
  bool is_good(const coordinator::Hash& hash);
  void make_room(std::int64_t nbytes, const std::filesystem::path& coming) const;

  const std::filesystem::path folder_;
  const std::int64_t most_bytes_;
  const std::int64_t free_bytes_;
  std::set<coordinator::Hash> good_;  // their bytes are what they are called by
};

}  // namespace ravnest::agent
