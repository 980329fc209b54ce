#pragma once

#include <algorithm>
#include <cstddef>

namespace ravnest::reduce {

// A part of the values: its place and its length.
struct Range {
  std::size_t offset = 0;
  std::size_t size = 0;
};

// How values are cut: into as many segments as there are participants, none, one or more longer
// than another by at most one; and segments into chunks.
struct Pieces {
  std::size_t values = 0;
  std::size_t segments = 1;
  std::size_t chunk = 1;  // values in one

  Range segment(std::size_t index) const {
    const std::size_t least = values / segments;
    const std::size_t longer = values % segments;
    return {.offset = index * least + std::min(index, longer),
            .size = least + (index < longer ? 1 : 0)};
  }
  std::size_t chunks(std::size_t segment) const {
    return (this->segment(segment).size + chunk - 1) / chunk;
  }
  Range at(std::size_t segment, std::size_t index) const {
    const Range whole = this->segment(segment);
    const std::size_t start = index * chunk;
    return {.offset = whole.offset + start, .size = std::min(chunk, whole.size - start)};
  }
};

}  // namespace ravnest::reduce
