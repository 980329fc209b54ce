#pragma once

#include <algorithm>
#include <cstddef>

namespace ravnest::reduce {

// A part of the values: its place and its length.
struct Range {
  std::size_t offset = 0;
  std::size_t size = 0;
};

// How values are cut: those that a codec may round, and those that it may not, each into as many
// shares as there are participants, none longer than another by more than one. A segment is one
// share of both, and cut into chunks: first those of the one, then those of the other.
struct Pieces {
  std::size_t values = 0;
  std::size_t exact = 0;  // of them, the last
  std::size_t segments = 1;
  std::size_t chunk = 1;  // values in one

  std::size_t chunks(std::size_t segment) const {
    return chunks_of(rounded_share(segment)) + chunks_of(exact_share(segment));
  }
  Range at(std::size_t segment, std::size_t index) const {
    const Range first = rounded_share(segment);
    const std::size_t count = chunks_of(first);
    return index < count ? chunk_of(first, index) : chunk_of(exact_share(segment), index - count);
  }
  bool is_exact(const Range& range) const { return range.offset >= values - exact; }

 private:
  static Range share(const Range& whole, std::size_t shares, std::size_t index) {
    const std::size_t least = whole.size / shares;
    const std::size_t longer = whole.size % shares;
    return {.offset = whole.offset + index * least + std::min(index, longer),
            .size = least + (index < longer ? 1 : 0)};
  }
  Range rounded_share(std::size_t segment) const {
    return share({.offset = 0, .size = values - exact}, segments, segment);
  }
  Range exact_share(std::size_t segment) const {
    return share({.offset = values - exact, .size = exact}, segments, segment);
  }
  std::size_t chunks_of(const Range& share) const { return (share.size + chunk - 1) / chunk; }
  Range chunk_of(const Range& share, std::size_t index) const {
    const std::size_t start = index * chunk;
    return {.offset = share.offset + start, .size = std::min(chunk, share.size - start)};
  }
};

}  // namespace ravnest::reduce
