#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace ravnest {

// A range of bytes and whatever keeps it alive (a mapped file, a vector, a
// tensor). Copies share the bytes. Nobody writes through it, except that a
// mapped file is private to the process, so an engine may train in place.
class Bytes {
 public:
  Bytes() = default;
  Bytes(std::shared_ptr<const void> owner, std::span<const std::byte> view)
      : owner_(std::move(owner)), view_(view) {}

  static Bytes copy_of(std::span<const std::byte> source);
  static Bytes take(std::vector<std::byte> source);

  // Maps a file copy-on-write: pages are read when touched, and writes stay in
  // this process. Throws Error(kIo) when the file cannot be opened or mapped.
  static Bytes map_file(const std::filesystem::path& path);

  std::span<const std::byte> view() const { return view_; }
  const std::byte* data() const { return view_.data(); }
  std::size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The part [offset, offset + size); throws std::out_of_range outside.
  Bytes slice(std::size_t offset, std::size_t size) const;

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> view_;
};

}  // namespace ravnest
