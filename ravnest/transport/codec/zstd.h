#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "ravnest/base/bytes.h"
#include "ravnest/transport/session/buffer.h"

namespace ravnest::transport {

// Compressed at the fastest level; empty where that would not save a byte.
std::optional<Bytes> compress(std::span<const std::byte> bytes);

// Throws std::invalid_argument unless exactly `size` bytes come out. Memory grows with what comes
// out, whatever `size` claims.
Buffer decompress(std::span<const std::byte> bytes, std::size_t size);

}  // namespace ravnest::transport
