#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/graph/pt2/zip.h"

namespace ravnest::graph {

namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDirectoryHeader = 0x02014b50;
constexpr std::uint32_t kEndRecord = 0x06054b50;
constexpr std::uint32_t kEndRecord64 = 0x06064b50;
constexpr std::uint32_t kEndLocator64 = 0x07064b50;
constexpr std::size_t kLocalHeaderSize = 30;
constexpr std::size_t kDirectoryHeaderSize = 46;
constexpr std::size_t kEndRecordSize = 22;
constexpr std::size_t kEndRecord64Size = 56;
constexpr std::size_t kEndLocator64Size = 20;
constexpr std::uint16_t kZip64Field = 1;
constexpr std::uint16_t kMax16 = 0xffffU;

// A name we would write ourselves: relative, plain characters, no way upwards.
bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > 512 || name.front() == '/' || name.back() == '/') {
    return false;
  }
  const bool plain = std::ranges::all_of(
      name, [](unsigned char c) { return c >= 0x20 && c != 0x7f && c != '\\' && c != ':'; });
  return plain && name.find("//") == std::string_view::npos &&
         name.find("..") == std::string_view::npos;
}

}  // namespace

ZipReader::ZipReader(Bytes archive, std::string label)
    : archive_(std::move(archive)), label_(std::move(label)) {
  const Directory directory = find_directory();
  std::size_t at = directory.offset;
  for (std::size_t i = 0; i < directory.count; ++i) {
    at = read_entry(at, directory);
  }
  if (at != directory.offset + directory.size) {
    fail("its directory does not have the size it states");
  }
  check_overlaps();
}

bool ZipReader::contains(std::string_view name) const { return entries_.contains(name); }

std::vector<std::string> ZipReader::names() const {
  std::vector<std::string> found;
  for (const auto& [name, entry] : entries_) {
    found.push_back(name);
  }
  return found;
}

Bytes ZipReader::read(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    fail(concat("it has no entry '", name, "'"));
  }
  const Bytes bytes = archive_.slice(found->second.offset, found->second.size);
  if (libdeflate_crc32(0, bytes.data(), bytes.size()) != found->second.crc) {
    fail(concat("entry '", name, "' is damaged (its checksum does not match)"));
  }
  return bytes;
}

void ZipReader::fail(std::string_view problem) const {
  throw_invalid("[graph] '", label_, "' is not a .pt2 archive we can read: ", printable(problem),
                ". Save it again with torch.export.save or Program.save.");
}

template <typename T>
T ZipReader::load(std::size_t offset) const {
  if (offset > archive_.size() || sizeof(T) > archive_.size() - offset) {
    fail("it ends too early");
  }
  T value;
  std::memcpy(&value, archive_.data() + offset, sizeof(T));
  return value;
}

ZipReader::Directory ZipReader::find_directory() const {
  if (archive_.size() < kEndRecordSize) {
    fail("it is too short");
  }
  const std::size_t end = archive_.size() - kEndRecordSize;
  if (load<std::uint32_t>(end) != kEndRecord) {
    fail("it does not end like a zip file (truncated, or something else)");
  }
  Directory directory{.offset = load<std::uint32_t>(end + 16),
                      .size = load<std::uint32_t>(end + 12),
                      .count = load<std::uint16_t>(end + 10)};
  if (directory.count == kMax16 || directory.offset == kMax32 || directory.size == kMax32) {
    directory = find_directory_64(end);
  }
  if (directory.offset > end || directory.size > end - directory.offset) {
    fail("its directory lies outside the file");
  }
  if (directory.count > directory.size / kDirectoryHeaderSize) {
    fail("its directory states more entries than it can hold");
  }
  return directory;
}

ZipReader::Directory ZipReader::find_directory_64(std::size_t end_record) const {
  if (end_record < kEndLocator64Size) {
    fail("it is too short");
  }
  const std::size_t locator = end_record - kEndLocator64Size;
  if (load<std::uint32_t>(locator) != kEndLocator64) {
    fail("its 64-bit directory is missing");
  }
  const auto record = load<std::uint64_t>(locator + 8);
  if (record > locator || kEndRecord64Size > locator - record ||
      load<std::uint32_t>(record) != kEndRecord64) {
    fail("its 64-bit directory lies outside the file");
  }
  return {.offset = load<std::uint64_t>(record + 48),
          .size = load<std::uint64_t>(record + 40),
          .count = load<std::uint64_t>(record + 32)};
}

std::size_t ZipReader::read_entry(std::size_t at, const Directory& directory) {
  const std::size_t limit = directory.offset + directory.size;
  if (limit - at < kDirectoryHeaderSize || load<std::uint32_t>(at) != kDirectoryHeader) {
    fail("its directory is damaged");
  }
  const auto flags = load<std::uint16_t>(at + 8);
  const auto method = load<std::uint16_t>(at + 10);
  const std::size_t name_size = load<std::uint16_t>(at + 28);
  const std::size_t extra_size = load<std::uint16_t>(at + 30);
  const std::size_t comment_size = load<std::uint16_t>(at + 32);
  const std::size_t next = at + kDirectoryHeaderSize + name_size + extra_size + comment_size;
  if (next > limit) {
    fail("its directory is damaged");
  }
  std::string name(reinterpret_cast<const char*>(archive_.data()) + at + kDirectoryHeaderSize,
                   name_size);
  if (!is_plain_name(name)) {
    fail("an entry has a name that is no plain relative path");
  }
  if ((flags & 1U) != 0 || method != 0) {
    fail(concat("entry '", name, "' is ", method != 0 ? "compressed" : "encrypted"));
  }

  std::uint64_t packed = load<std::uint32_t>(at + 20);
  std::uint64_t size = load<std::uint32_t>(at + 24);
  std::uint64_t local_header = load<std::uint32_t>(at + 42);
  std::size_t field = at + kDirectoryHeaderSize + name_size;
  const std::size_t fields_end = field + extra_size;
  while (fields_end - field >= 4) {
    const auto id = load<std::uint16_t>(field);
    const std::size_t length = load<std::uint16_t>(field + 2);
    field += 4;
    if (length > fields_end - field) {
      fail("its directory is damaged");
    }
    if (id == kZip64Field) {
      std::size_t from = field;
      for (std::uint64_t* wide : {&size, &packed, &local_header}) {
        if (*wide == kMax32 && from + 8 <= field + length) {
          *wide = load<std::uint64_t>(from);
          from += 8;
        }
      }
    }
    field += length;
  }
  if (packed != size) {
    fail(concat("entry '", name, "' has two different sizes"));
  }
  add_entry(name, {.offset = 0, .size = size, .crc = load<std::uint32_t>(at + 16)}, local_header,
            directory.offset);
  return next;
}

void ZipReader::add_entry(const std::string& name, Entry entry, std::size_t local_header,
                          std::size_t limit) {
  if (local_header > limit || kLocalHeaderSize > limit - local_header ||
      load<std::uint32_t>(local_header) != kLocalHeader) {
    fail(concat("entry '", name, "' lies outside the file"));
  }
  const std::size_t name_size = load<std::uint16_t>(local_header + 26);
  const std::size_t extra_size = load<std::uint16_t>(local_header + 28);
  entry.offset = local_header + kLocalHeaderSize + name_size + extra_size;
  if (entry.offset > limit || entry.size > limit - entry.offset) {
    fail(concat("entry '", name, "' lies outside the file"));
  }
  const std::string_view local_name(
      reinterpret_cast<const char*>(archive_.data()) + local_header + kLocalHeaderSize, name_size);
  if (local_name != name || load<std::uint16_t>(local_header + 8) != 0) {
    fail(concat("entry '", name, "' is described in two different ways"));
  }

  const std::size_t slash = name.find('/');
  if (slash == std::string::npos || (!root_.empty() && name.substr(0, slash + 1) != root_)) {
    fail(concat("entry '", name, "' is not under one common folder"));
  }
  root_ = name.substr(0, slash + 1);
  if (!entries_.emplace(name.substr(slash + 1), entry).second) {
    fail(concat("entry '", name, "' is there twice"));
  }
}

void ZipReader::check_overlaps() const {
  std::vector<Entry> ordered;
  for (const auto& [name, entry] : entries_) {
    ordered.push_back(entry);
  }
  std::ranges::sort(ordered, {}, &Entry::offset);
  for (std::size_t i = 1; i < ordered.size(); ++i) {
    if (ordered[i].offset < ordered[i - 1].offset + ordered[i - 1].size + kLocalHeaderSize) {
      fail("its entries overlap");
    }
  }
}

}  // namespace ravnest::graph
