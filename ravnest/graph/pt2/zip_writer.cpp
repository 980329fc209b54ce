#include <libdeflate.h>

#include <cstring>

#include "ravnest/base/error.h"
#include "ravnest/graph/pt2/zip.h"

namespace ravnest::graph {

namespace {

constexpr std::uint64_t kAlignment = 64;
// Midnight of 1 January 1980, the earliest a zip can say: equal input, equal bytes.
constexpr std::uint32_t kEpoch = 0x00210000;
constexpr std::uint16_t kUtf8Flag = 0x0800;

template <typename T>
void append(std::string& record, std::uint64_t value) {
  const auto narrow = static_cast<T>(value);
  record.append(reinterpret_cast<const char*>(&narrow), sizeof(T));
}

void append16(std::string& record, std::uint64_t value) { append<std::uint16_t>(record, value); }

void append32(std::string& record, std::uint64_t value) { append<std::uint32_t>(record, value); }

void append64(std::string& record, std::uint64_t value) { append<std::uint64_t>(record, value); }

std::uint64_t capped(std::uint64_t value) { return value < kMax32 ? value : kMax32; }

// Version needed, flags, method (stored), time, checksum, sizes: the part that
// local and directory headers share.
void append_common(std::string& record, std::uint32_t crc, std::uint64_t size) {
  append16(record, 45);
  append16(record, kUtf8Flag);
  append16(record, 0);
  append32(record, kEpoch);
  append32(record, crc);
  append32(record, capped(size));
  append32(record, capped(size));
}

}  // namespace

ZipWriter::ZipWriter(const std::filesystem::path& path, std::string root)
    : file_(path), root_(std::move(root)) {}

void ZipWriter::put(std::string_view record) {
  file_.write(std::as_bytes(std::span(record)));
  position_ += record.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  const std::string full = root_ + "/" + name;
  const std::uint32_t crc = libdeflate_crc32(0, bytes.data(), bytes.size());
  const std::uint64_t header = position_;

  std::string extra;
  if (bytes.size() >= kMax32) {
    append16(extra, 1);
    append16(extra, 16);
    append64(extra, bytes.size());
    append64(extra, bytes.size());
  }
  const std::uint64_t unpadded = header + 30 + full.size() + extra.size() + 4;
  const std::uint64_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  append16(extra, 0x4246);  // "FB": padding, as torch's own writer has it
  append16(extra, padding);
  extra.append(padding, 'Z');

  std::string local;
  append32(local, 0x04034b50);
  append_common(local, crc, bytes.size());
  append16(local, full.size());
  append16(local, extra.size());
  put(local + full + extra);
  file_.write(bytes);
  position_ += bytes.size();

  std::string wide;
  for (const std::uint64_t value :
       {std::uint64_t{bytes.size()}, std::uint64_t{bytes.size()}, header}) {
    if (value >= kMax32) {
      append64(wide, value);
    }
  }
  append32(directory_, 0x02014b50);
  append16(directory_, 45);
  append_common(directory_, crc, bytes.size());
  append16(directory_, full.size());
  append16(directory_, wide.empty() ? 0 : wide.size() + 4);
  append16(directory_, 0);
  append16(directory_, 0);
  append16(directory_, 0);
  append32(directory_, 0);
  append32(directory_, capped(header));
  directory_ += full;
  if (!wide.empty()) {
    append16(directory_, 1);
    append16(directory_, wide.size());
    directory_ += wide;
  }
  ++count_;
}

void ZipWriter::add(const std::string& name, std::string_view text) {
  add(name, std::as_bytes(std::span(text)));
}

void ZipWriter::finish(Durability durability) {
  const std::uint64_t start = position_;
  put(directory_);
  const bool wide = count_ >= 0xffff || start >= kMax32 || directory_.size() >= kMax32;
  std::string end;
  if (wide) {
    const std::uint64_t record = position_;
    append32(end, 0x06064b50);
    append64(end, 44);
    append16(end, 45);
    append16(end, 45);
    append32(end, 0);
    append32(end, 0);
    append64(end, count_);
    append64(end, count_);
    append64(end, directory_.size());
    append64(end, start);
    append32(end, 0x07064b50);
    append32(end, 0);
    append64(end, record);
    append32(end, 1);
  }
  const std::uint64_t short_count = count_ < 0xffff ? count_ : 0xffff;
  append32(end, 0x06054b50);
  append16(end, 0);
  append16(end, 0);
  append16(end, short_count);
  append16(end, short_count);
  append32(end, capped(directory_.size()));
  append32(end, capped(start));
  append16(end, 0);
  put(end);
  file_.commit(durability);
}

}  // namespace ravnest::graph
