#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ravnest/transport/frame.h"

namespace ravnest::transport {

// The bytes of a frame, as proto/wire.proto specifies them. Pure; any thread.

inline constexpr std::size_t kMaxFrameBytes = std::size_t{4} << 20;

// All of a frame but its payload, which follows as it is.
std::string write_head(const FrameHead& head, std::size_t payload_bytes);

// Reads a frame that lies in parts; the result's payload borrows them. Throws std::invalid_argument
// for whatever is not exactly one frame. Takes memory for the head alone, and only once its bytes
// are there.
InFrame read_frame(std::span<const std::span<const std::byte>> parts);

}  // namespace ravnest::transport
