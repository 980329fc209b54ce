#include "ravnest/transport/session/buffer.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace ravnest::transport {

namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

void Buffer::Free::operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }

void Buffer::reserve(std::size_t capacity) {
  if (capacity <= capacity_) {
    return;
  }
  std::unique_ptr<std::byte[], Free> larger(
      static_cast<std::byte*>(::operator new(capacity, kAlignment)));
  if (size_ > 0) {
    std::memcpy(larger.get(), memory_.get(), size_);
  }
  memory_ = std::move(larger);
  capacity_ = capacity;
}

void Buffer::resize(std::size_t size) {
  if (size > capacity_) {
    reserve(std::max(size, 2 * capacity_));
  }
  size_ = size;
}

void Buffer::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    return;
  }
  const std::size_t offset = size_;
  resize(offset + bytes.size());
  std::memcpy(memory_.get() + offset, bytes.data(), bytes.size());
}

Bytes Buffer::take() {
  const std::span<const std::byte> view(memory_.get(), size_);
  std::shared_ptr<const std::byte[]> owner(std::move(memory_));
  size_ = 0;
  capacity_ = 0;
  return {std::move(owner), view};
}

}  // namespace ravnest::transport
