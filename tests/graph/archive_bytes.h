#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/bytes.h"

namespace ravnest::graph {

// One entry of a zip archive made by hand, with room for lies: what is set here
// is written instead of the truth.
struct HandmadeEntry {
  std::string name = {};
  std::string content = {};
  std::optional<std::string> local_name = {};
  std::optional<std::uint32_t> crc = {};
  std::optional<std::uint32_t> size = {};
  std::optional<std::uint32_t> packed_size = {};
  std::optional<std::uint32_t> offset = {};
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::string directory_extra = {};
};

// The same for the record at the end.
struct HandmadeEnd {
  std::optional<std::uint16_t> count = {};
  std::optional<std::uint32_t> size = {};
  std::optional<std::uint32_t> offset = {};
  std::string before = {};  // between directory and record: zip64 records
  std::string after = {};
};

inline std::uint32_t crc32_of(std::string_view content) {
  static const auto kTable = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xedb88320U : 0U);
      }
      entries[i] = value;
    }
    return entries;
  }();
  std::uint32_t crc = ~0U;
  for (const char c : content) {
    crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xffU] ^ (crc >> 8U);
  }
  return ~crc;
}

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline std::string handmade_zip(const std::vector<HandmadeEntry>& entries,
                                const HandmadeEnd& end = {}) {
  std::string out;
  std::string directory;
  const auto put_common = [](std::string& record, const HandmadeEntry& entry) {
    put<std::uint16_t>(record, 20);
    put<std::uint16_t>(record, entry.flags);
    put<std::uint16_t>(record, entry.method);
    put<std::uint32_t>(record, 0x00210000);
    put<std::uint32_t>(record, entry.crc.value_or(crc32_of(entry.content)));
    const auto size = static_cast<std::uint32_t>(entry.content.size());
    put<std::uint32_t>(record, entry.packed_size.value_or(entry.size.value_or(size)));
    put<std::uint32_t>(record, entry.size.value_or(size));
  };
  for (const HandmadeEntry& entry : entries) {
    const auto header = static_cast<std::uint32_t>(out.size());
    const std::string& local_name = entry.local_name ? *entry.local_name : entry.name;
    put<std::uint32_t>(out, 0x04034b50);
    put_common(out, entry);
    put(out, static_cast<std::uint16_t>(local_name.size()));
    put<std::uint16_t>(out, 0);
    out += local_name + entry.content;

    put<std::uint32_t>(directory, 0x02014b50);
    put<std::uint16_t>(directory, 20);
    put_common(directory, entry);
    put(directory, static_cast<std::uint16_t>(entry.name.size()));
    put(directory, static_cast<std::uint16_t>(entry.directory_extra.size()));
    directory.append(10, '\0');
    put<std::uint32_t>(directory, entry.offset.value_or(header));
    directory += entry.name + entry.directory_extra;
  }
  const auto start = static_cast<std::uint32_t>(out.size());
  out += directory + end.before;
  const auto count = end.count.value_or(static_cast<std::uint16_t>(entries.size()));
  put<std::uint32_t>(out, 0x06054b50);
  put<std::uint32_t>(out, 0);
  put<std::uint16_t>(out, count);
  put<std::uint16_t>(out, count);
  put<std::uint32_t>(out, end.size.value_or(static_cast<std::uint32_t>(directory.size())));
  put<std::uint32_t>(out, end.offset.value_or(start));
  put<std::uint16_t>(out, 0);
  return out + end.after;
}

inline Bytes bytes_of(std::string_view text) {
  return Bytes::copy_of(std::as_bytes(std::span(text)));
}

inline std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace ravnest::graph
