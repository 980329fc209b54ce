#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/atomic_file.h"
#include "ravnest/base/bytes.h"

namespace ravnest::graph {

// In a field of 32 bits: the value is in the Zip64 one.
inline constexpr std::uint32_t kMax32 = 0xffffffffU;

// Reads a zip archive of stored (uncompressed) entries under one root folder,
// as .pt2 files are. Strict: whatever is compressed, encrypted, overlapping,
// oddly named or out of bounds is refused with std::invalid_argument. Nothing
// is copied; entries are views of the archive's bytes.
class ZipReader {
 public:
  // `label` names the archive in error messages.
  ZipReader(Bytes archive, std::string label);

  bool contains(std::string_view name) const;
  std::vector<std::string> names() const;
  // The entry's bytes, checked against its CRC; throws when there is none.
  Bytes read(std::string_view name) const;

  const std::string& label() const { return label_; }

 private:
  struct Entry {
    std::size_t offset;
    std::size_t size;
    std::uint32_t crc;
  };

  struct Directory {
    std::size_t offset;
    std::size_t size;
    std::size_t count;
  };

  [[noreturn]] void fail(std::string_view problem) const;
  template <typename T>
  T load(std::size_t offset) const;
  Directory find_directory() const;
  Directory find_directory_64(std::size_t end_record) const;
  std::size_t read_entry(std::size_t at, const Directory& directory);
  void add_entry(const std::string& name, Entry entry, std::size_t local_header, std::size_t limit);
  void check_overlaps() const;

  Bytes archive_;
  std::string label_;
  std::string root_;
  std::map<std::string, Entry, std::less<>> entries_;
};

// Writes such an archive, each entry aligned to 64 bytes so that weights can be
// mapped. The same entries give the same bytes. The file appears at finish().
class ZipWriter {
 public:
  ZipWriter(const std::filesystem::path& path, std::string root);

  void add(const std::string& name, std::span<const std::byte> bytes);
  void add(const std::string& name, std::string_view text);
  void finish(Durability durability = Durability::kAtCommit);

 private:
  void put(std::string_view record);

  AtomicFile file_;
  std::string root_;
  std::uint64_t position_ = 0;
  std::uint64_t count_ = 0;
  std::string directory_;
};

}  // namespace ravnest::graph
