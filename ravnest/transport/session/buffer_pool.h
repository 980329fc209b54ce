#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "ravnest/transport/session/buffer.h"

namespace ravnest::transport {

// Memory of large tensors that were let go, kept for the next ones: passes have the same shapes
// again and again, and fresh pages cost about as much as the network. Any thread.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  explicit BufferPool(std::size_t most_idle_bytes) : most_idle_bytes_(most_idle_bytes) {}

  // An empty buffer; one with this capacity or more where a fitting one is idle.
  Buffer get(std::size_t capacity);
  // The buffer's bytes; their memory comes back here when the last copy is gone.
  Bytes share(Buffer buffer);

 private:
  void put(Buffer buffer);

  const std::size_t most_idle_bytes_;

  std::mutex mutex_;  // guards what follows
  std::vector<Buffer> idle_;
  std::size_t idle_bytes_ = 0;
};

}  // namespace ravnest::transport
