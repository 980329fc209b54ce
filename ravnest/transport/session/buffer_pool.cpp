#include "ravnest/transport/session/buffer_pool.h"

#include <algorithm>
#include <utility>

namespace ravnest::transport {

namespace {

// Below this the allocator has warm memory of its own.
constexpr std::size_t kSmallestKept = std::size_t{64} << 10;

}  // namespace

Buffer BufferPool::get(std::size_t capacity) {
  const std::lock_guard lock(mutex_);
  const auto fits = [capacity](const Buffer& buffer) {
    return buffer.capacity() >= capacity && buffer.capacity() / 2 <= capacity;
  };
  const auto found = std::ranges::find_if(idle_, fits);
  if (found == idle_.end()) {
    return {};
  }
  Buffer buffer = std::move(*found);
  idle_.erase(found);
  idle_bytes_ -= buffer.capacity();
  buffer.resize(0);
  return buffer;
}

Bytes BufferPool::share(Buffer buffer) {
  if (buffer.capacity() < kSmallestKept) {
    return buffer.take();
  }
  const auto give_back = [pool = weak_from_this()](Buffer* let_go) {
    const std::unique_ptr<Buffer> kept(let_go);
    if (const auto alive = pool.lock()) {
      alive->put(std::move(*kept));
    }
  };
  const std::shared_ptr<Buffer> owner(new Buffer(std::move(buffer)), give_back);
  return {owner, {owner->data(), owner->size()}};
}

void BufferPool::put(Buffer buffer) {
  const std::lock_guard lock(mutex_);
  if (idle_bytes_ + buffer.capacity() > most_idle_bytes_) {
    return;
  }
  idle_bytes_ += buffer.capacity();
  idle_.push_back(std::move(buffer));
}

}  // namespace ravnest::transport
