#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "ravnest/base/bytes.h"

namespace ravnest::reduce {

// Values as they came from the network: in parts, at any address, some cut in two.
using Parts = std::span<const Bytes>;

inline std::size_t nbytes_of(Parts parts) {
  std::size_t nbytes = 0;
  for (const Bytes& part : parts) {
    nbytes += part.size();
  }
  return nbytes;
}

// In one piece, where numbers of up to eight bytes may be read; copied only where it must be.
inline Bytes joined(Parts parts) {
  if (parts.size() == 1 && reinterpret_cast<std::uintptr_t>(parts[0].data()) % 8 == 0) {
    return parts[0];
  }
  std::vector<std::byte> whole;
  whole.reserve(nbytes_of(parts));
  for (const Bytes& part : parts) {
    whole.insert(whole.end(), part.view().begin(), part.view().end());
  }
  return Bytes::take(std::move(whole));
}

// Calls `each(index of its first float, bytes)` for runs of whole floats, in order; one that two
// parts share is a run of its own.
template <typename Each>
void for_each_run(Parts parts, const Each& each) {
  std::array<std::byte, sizeof(float)> cut{};
  std::size_t begun = 0;  // bytes of it
  std::size_t done = 0;   // floats
  for (const Bytes& part : parts) {
    std::span<const std::byte> rest = part.view();
    while (begun > 0 && begun < cut.size() && !rest.empty()) {
      cut[begun++] = rest.front();
      rest = rest.subspan(1);
    }
    if (begun == cut.size()) {
      each(done++, std::span<const std::byte>(cut));
      begun = 0;
    }
    const std::size_t floats = rest.size() / sizeof(float);
    if (floats > 0) {
      each(done, rest.first(floats * sizeof(float)));
      done += floats;
      rest = rest.subspan(floats * sizeof(float));
    }
    for (const std::byte byte : rest) {
      cut[begun++] = byte;
    }
  }
}

}  // namespace ravnest::reduce
