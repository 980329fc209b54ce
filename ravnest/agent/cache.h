#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>

#include "ravnest/control/client.h"

namespace ravnest::agent {

// Files by their SHA-256, kept between jobs: the same sub-model is fetched once. The oldest go when
// they are more than so many bytes.
class Cache {
 public:
  Cache(std::filesystem::path folder, std::int64_t most_bytes);

  // Fetches it where it is not there, from where it was cut off. Throws as Client::download does.
  std::filesystem::path get(const control::Client& client, const coordinator::Hash& hash,
                            const control::TransferOptions& transfer = {});
  // `target` becomes the file, to be read alone: the same bytes on disk where the file system can.
  void place(const control::Client& client, const coordinator::Hash& hash,
             const std::filesystem::path& target, const control::TransferOptions& transfer = {});

 private:
  void make_room() const;

  const std::filesystem::path folder_;
  const std::int64_t most_bytes_;
};

}  // namespace ravnest::agent
