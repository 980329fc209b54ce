#pragma once

#include <cstddef>

namespace ravnest::transport {

// What a message from outside may be at most. Checked before memory is taken, by the sender of a
// message too, so that a mistake shows where it is made.
struct Limits {
  std::size_t tensors = 2048;
  std::size_t fields = 16;
  std::size_t metadata_bytes = std::size_t{64} << 10;
  std::size_t tensor_bytes = std::size_t{2} << 30;
  std::size_t message_bytes = std::size_t{4} << 30;
  // Of all channels of a transport: bytes received that no consumer has taken yet.
  std::size_t held_bytes = std::size_t{8} << 30;
};

inline constexpr std::size_t kMaxRank = 8;
// Of what a frame says about a message, without its tensors' bytes.
inline constexpr std::size_t kMaxHeadBytes = std::size_t{256} << 10;
// Of a tensor's bytes in one frame.
inline constexpr std::size_t kMaxChunkBytes = std::size_t{2} << 20;
// Of the name of a node, a channel or a plan.
inline constexpr std::size_t kMaxNameBytes = 256;

}  // namespace ravnest::transport
