#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "ravnest/transport/frame.h"
#include "ravnest/transport/message.h"
#include "ravnest/transport/session/budget.h"
#include "ravnest/transport/session/buffer_pool.h"

namespace ravnest::transport {

// Frames do not follow each other, or there is no memory for them now: the connection is at fault,
// a new one may do better.
class BrokenStream : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Payload = std::span<const std::span<const std::byte>>;
// Of a payload's memory.
using PayloadOwner = std::shared_ptr<const void>;

struct Assembled {
  Message message;
  std::vector<Bytes> parts;  // as in Delivery
  Reservation held;          // the memory of both
};

// Makes messages of frames. Everything is checked before it is believed, and memory grows with the
// bytes that came: room for a tensor is made up to twice what is there of it, up to the largest
// tensor that came whole before, or is there from an earlier one. For who takes parts, payloads are
// kept as they are, unless they come in crumbs. Throws std::invalid_argument for what may not be
// sent at all and BrokenStream for what came amiss. Plain data, guarded by its session.
class Assembler {
 public:
  Assembler(const Limits& limits, std::shared_ptr<Budget> budget, bool takes_parts = false);

  // Without an owner, the payload is copied.
  void begin(const Begin& begin, Payload payload, const PayloadOwner& owner = nullptr);
  void add(const Piece& piece, Payload payload, const PayloadOwner& owner = nullptr);
  // Whether a message is begun and not yet taken.
  bool is_busy() const { return is_busy_; }
  bool is_whole() const { return is_busy_ && received_ == total_; }
  // Of the body, as it travels.
  std::size_t nbytes() const { return total_; }
  // The whole message, decoded.
  Assembled take();
  // Forgets what is not whole.
  void reset();

 private:
  void check_header(const Begin& begin) const;
  void check_tensors(const Begin& begin);
  void append(Payload payload, const PayloadOwner& owner);
  void append(std::span<const std::byte> bytes);
  bool may_keep(Payload payload, const PayloadOwner& owner) const;
  void put_together();

  Limits limits_;
  bool takes_parts_;
  std::shared_ptr<Budget> budget_;
  std::shared_ptr<BufferPool> pool_;
  Begin header_;
  bool is_in_parts_ = false;
  std::vector<Bytes> parts_;
  std::vector<Buffer> tensors_;
  std::size_t filling_ = 0;  // index of the tensor that the next bytes belong to
  std::size_t total_ = 0;    // bytes of the body
  std::size_t decoded_ = 0;  // bytes of all tensors, once decoded
  std::size_t received_ = 0;
  std::size_t largest_whole_ = 0;
  bool is_busy_ = false;
  Reservation held_;
};

}  // namespace ravnest::transport
