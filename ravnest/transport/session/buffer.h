#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "ravnest/base/bytes.h"

namespace ravnest::transport {

// Bytes that grow at the end, aligned for vector code and not zeroed first. Owned by one thread at
// a time.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) { resize(size); }
  Buffer(Buffer&& other) noexcept
      : memory_(std::move(other.memory_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  std::byte* data() { return memory_.get(); }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }

  // What is there stays; what is new is not set.
  void resize(std::size_t size);
  void reserve(std::size_t capacity);
  void append(std::span<const std::byte> bytes);

  // Gives the bytes away; the buffer is empty afterwards.
  Bytes take();

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };

  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace ravnest::transport
