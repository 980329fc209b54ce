#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/transport/codec/codec.h"

namespace ravnest::transport {

// The frames of the protocol, as proto/wire.proto specifies them, free of any encoding. What comes
// from outside stays a claim here, in plain numbers, until the Assembler has checked it.

inline constexpr std::uint32_t kProtocolVersion = 3;

// The first frame from the sender's side.
struct Hello {
  std::uint32_t protocol = kProtocolVersion;
  std::string plan;
  std::string from;
  std::string to;
  std::string channel;
  std::uint64_t instance = 0;  // drawn anew at every start of the sender
  std::uint64_t first = 1;     // the lowest sequence number not known to be taken
};

// The answer; messages flow from here on.
struct Welcome {
  std::uint64_t instance = 0;  // of the receiver
  std::uint64_t received = 0;  // sequence number of the last message received whole
  std::uint64_t window_messages = 0;
  std::uint64_t window_bytes = 0;
};

// The other answer, and the receiver's last word when it cannot go on.
struct Refusal {
  std::string text;
  bool try_again = false;
};

struct TensorClaim {
  std::int64_t dtype = 0;
  std::vector<std::int64_t> shape;
  std::uint32_t numbers = 0;
  bool zstd = false;
  std::uint64_t nbytes = 0;  // as encoded
};

// Starts a message. Its body is all tensors' encoded bytes, one after the other; the payload of
// this frame is the first part of it.
struct Begin {
  std::uint64_t sequence = 0;
  std::int64_t kind = 0;
  std::int64_t pass = 0;
  std::int64_t epoch = 0;
  std::vector<std::int64_t> fields;
  std::string metadata;
  std::vector<TensorClaim> tensors;
  std::uint32_t numbers = 0;  // the codec that was asked for
  bool zstd = false;
};

// A further part of the body.
struct Piece {
  std::uint64_t sequence = 0;
  std::uint64_t offset = 0;
};

// All messages up to this one were taken by the consumer.
struct Ack {
  std::uint64_t taken = 0;
};

// From the sender's side, when nothing else was written for a while. (The receiver repeats its
// ack.)
struct Heartbeat {
  std::uint64_t written = 0;  // sequence number of the last message written whole
};

// Nothing follows, and all is well.
struct Goodbye {};

using FrameHead = std::variant<Hello, Welcome, Refusal, Begin, Piece, Ack, Heartbeat, Goodbye>;

std::string_view name_of(const FrameHead& head);

// A frame to write: its payload shares the tensors' bytes.
struct OutFrame {
  FrameHead head;
  std::vector<Bytes> payload;
};

// A frame that came.
struct InFrame {
  FrameHead head;
  std::vector<std::span<const std::byte>> payload;
  // Keeps the payload's memory; empty: it is borrowed for the length of a call.
  std::shared_ptr<const void> owner;
};

}  // namespace ravnest::transport
