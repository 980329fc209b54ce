#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/coordinator/durable.h"

namespace ravnest::coordinator {

struct ArtifactsOptions {
  std::int64_t most_bytes = std::int64_t{1} << 40;    // of all together, parts included
  std::size_t most_uploads = 1024;                    // at a time
  std::size_t most_sent = 1024;                       // files of one member, as begin() has it
  std::int64_t free_bytes = std::int64_t{512} << 20;  // left on the disk, for the log
};

// A file that is on its way, open for as long as somebody holds it.
struct Upload;

// Files that are called by their SHA-256, and by nothing else: Programs, sub-models, checkpoints,
// results. One is there whole, synced and with the right hash, or not at all; what has come of an
// upload so far stays, for the next try. Any thread.
//
// A hash that is none is std::invalid_argument; a full or failing disk is Error(kIo).
class Artifacts {
 public:
  explicit Artifacts(std::filesystem::path folder, ArtifactsOptions options = {});
  ~Artifacts();
  Artifacts(const Artifacts&) = delete;
  Artifacts& operator=(const Artifacts&) = delete;

  bool has(std::string_view hash) const;
  // Bytes that have come; all of them where it is there. An upload goes on from here. Throws
  // std::invalid_argument where it is there with another size.
  std::int64_t received(std::string_view hash, std::int64_t size) const;
  // To be held while parts come: who lets it go leaves what has come, and nothing else. Whoever
  // begins the same one meanwhile shares it. What a member sends is on its account until it is
  // gone or settled: with what is still to come, half of the room that is left at most. Throws as
  // received(), and Error where there are too many, or the account is full.
  std::shared_ptr<Upload> begin(std::string_view hash, std::int64_t size,
                                const std::string& member = {});
  // What this member sent is in use from here on, and off its account; or of no use, and dropped.
  // A file of another is left alone.
  void settle(const Hash& hash, const std::string& member, bool is_used);
  static std::int64_t received(Upload& upload);
  // The next part, at what received() or the last put() gave. The last part checks the hash: where
  // it is another, the parts are gone and it throws std::invalid_argument.
  std::int64_t put(Upload& upload, std::int64_t offset, std::span<const std::byte> part);
  // The whole of a file of ours, which moves here. Safe from a crash of the machine after sync():
  // one for many.
  Hash take_file(const std::filesystem::path& file);
  void sync() const;

  // Pages are read as they are touched; the bytes stay after drop(). Throws std::invalid_argument
  // where there is none.
  Bytes get(std::string_view hash) const;
  // Reads it all; one that is damaged is removed. False where it is not there, now.
  bool verify(std::string_view hash);
  void drop(std::string_view hash);
  // Removes what nobody refers to and nobody has touched for so long. Gives how many went.
  std::size_t sweep(const std::map<Hash, std::int64_t>& references, std::chrono::seconds age);

  std::int64_t nbytes() const;

 private:
  std::filesystem::path path_of(std::string_view hash) const;  // checks it
  std::filesystem::path part_of(std::string_view hash) const;
  void check_size(std::string_view hash, std::int64_t size) const;
  void add_bytes(std::int64_t count);
  std::shared_ptr<Upload> open_upload(const Hash& hash, std::int64_t size);
  void charge(const Hash& hash, std::int64_t size, const std::string& member);
  void credit(const Hash& hash);
  std::int64_t disk_room() const;
  std::int64_t finish(Upload& upload);
  void place(const std::filesystem::path& file, const Hash& hash, std::int64_t size);
  std::size_t sweep_folder(const std::filesystem::path& folder,
                           const std::map<Hash, std::int64_t>& references,
                           std::chrono::seconds age);

  const std::filesystem::path folder_;
  const ArtifactsOptions options_;
  std::atomic<std::int64_t> taken_ = 0;  // files, for their names
  mutable std::mutex mutex_;             // guards what follows
  std::map<Hash, std::weak_ptr<Upload>> uploads_;
  std::int64_t nbytes_ = 0;
  struct Sent {
    std::string member;
    std::int64_t nbytes = 0;  // when it is whole
  };
  std::map<Hash, Sent> sent_;
  struct Account {
    std::int64_t nbytes = 0;
    std::size_t files = 0;
  };
  std::map<std::string, Account> accounts_;  // by member
};

}  // namespace ravnest::coordinator
