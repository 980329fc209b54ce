#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "ravnest/transport/frame.h"
#include "ravnest/transport/message.h"
#include "ravnest/transport/options.h"

namespace ravnest::transport {

// A message made ready: checked against the limits, tensors encoded.
struct Outgoing {
  Begin begin;  // without its sequence number
  std::vector<Bytes> body;
  std::size_t nbytes = 0;
};

// Pure; on the thread of whoever sends. Throws std::invalid_argument over a limit.
Outgoing prepare(const Message& message, const Limits& limits);

// The messages of one channel that the receiver has not taken, and how far they are written.
// Sequence numbers begin at 1. Plain data: its session holds the lock.
class Outbox {
 public:
  Outbox(const Window& window, std::size_t largest_chunk);

  // Whether our own window has room for one more.
  bool has_room(std::size_t nbytes) const;
  void add(Outgoing message);
  bool is_empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  // The lowest sequence number that is not known to be taken.
  std::uint64_t first() const { return first_; }

  // A new connection: goes on after what the receiver has, within its window too. Throws
  // std::invalid_argument where the receiver claims what it cannot have.
  void rewind(const Welcome& welcome);
  // The next frame that the receiver's window allows.
  std::optional<OutFrame> next_frame(TimePoint now);
  // Drops what was taken. Throws std::invalid_argument for what was never written.
  void acknowledge(std::uint64_t taken);

  // The last message that was written whole on this connection, or that the receiver had before.
  std::uint64_t written() const { return writing_ - 1; }
  std::uint64_t resent() const { return resent_; }

 private:
  struct Entry {
    Outgoing message;
    std::uint64_t sequence = 0;
  };

  const Entry& entry(std::uint64_t sequence) const { return entries_[sequence - first_]; }
  bool may_begin(const Entry& entry) const;
  std::vector<Bytes> cut(const Entry& entry);
  void finish_if_whole(const Entry& entry);
  void adapt_chunk(TimePoint now);

  Window own_;
  Window peer_;
  std::size_t largest_chunk_;
  std::deque<Entry> entries_;
  std::uint64_t first_ = 1;
  std::size_t nbytes_ = 0;  // of all entries

  std::uint64_t writing_ = 1;      // sequence number that is written now or next
  std::size_t written_ = 0;        // bytes of its body
  std::size_t written_bytes_ = 0;  // of entries before it
  bool has_begun_ = false;
  std::uint64_t highest_ = 0;  // ever begun, on any connection
  std::uint64_t resent_ = 0;

  std::size_t chunk_;
  std::optional<TimePoint> last_chunk_;
};

}  // namespace ravnest::transport
