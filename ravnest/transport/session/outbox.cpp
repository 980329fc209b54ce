#include "ravnest/transport/session/outbox.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::transport {

namespace {

// A chunk that takes longer than this to write is halved, one that takes a tenth is doubled: what
// is heard between two chunks must come well before a peer is thought lost.
constexpr Milliseconds kLongChunk{250};
constexpr std::size_t kSmallestChunk = std::size_t{64} << 10;

void check_counts(const Message& message, const Limits& limits) {
  if (message.tensors.size() > limits.tensors || message.fields.size() > limits.fields ||
      message.metadata.size() > limits.metadata_bytes) {
    throw_invalid("[transport] expected a message of at most ", limits.tensors, " tensors, ",
                  limits.fields, " fields and ", limits.metadata_bytes, " bytes of metadata, got ",
                  message.tensors.size(), ", ", message.fields.size(), " and ",
                  message.metadata.size(), ".");
  }
}

// No encoding of a number takes more than ten bytes.
void check_head(const Message& message) {
  std::size_t nbytes = message.metadata.size() + 10 * message.fields.size() + 256;
  for (const Tensor& tensor : message.tensors) {
    nbytes += 48 + 10 * tensor.shape.size();
  }
  if (nbytes > kMaxHeadBytes) {
    throw_invalid("[transport] expected a message whose tensors take ", kMaxHeadBytes,
                  " bytes to describe, got ", nbytes, "; use fewer.");
  }
}

TensorClaim claim_of(const Tensor& tensor, const Encoded& encoded) {
  return {.dtype = static_cast<std::int64_t>(tensor.dtype),
          .shape = tensor.shape,
          .numbers = static_cast<std::uint32_t>(encoded.codec.numbers),
          .zstd = encoded.codec.zstd,
          .nbytes = encoded.bytes.size()};
}

}  // namespace

Outgoing prepare(const Message& message, const Limits& limits) {
  check_counts(message, limits);
  check_head(message);
  Outgoing out{.begin = {.kind = static_cast<std::int64_t>(message.kind),
                         .pass = message.pass,
                         .epoch = message.epoch,
                         .fields = message.fields,
                         .metadata = message.metadata,
                         .numbers = static_cast<std::uint32_t>(message.codec.numbers),
                         .zstd = message.codec.zstd}};
  for (const Tensor& tensor : message.tensors) {
    static_cast<void>(checked_tensor_view(tensor, limits));
    Encoded encoded = encode(tensor, message.codec);
    out.begin.tensors.push_back(claim_of(tensor, encoded));
    out.nbytes += encoded.bytes.size();
    out.body.push_back(std::move(encoded.bytes));
  }
  if (out.nbytes > limits.message_bytes) {
    throw_invalid("[transport] expected a message of at most ", limits.message_bytes,
                  " bytes, got ", out.nbytes, ".");
  }
  return out;
}

Outbox::Outbox(const Window& window, std::size_t largest_chunk)
    : own_(window),
      peer_(window),
      largest_chunk_(std::clamp(largest_chunk, kSmallestChunk, kMaxChunkBytes)),
      chunk_(largest_chunk_) {}

bool Outbox::has_room(std::size_t nbytes) const {
  return entries_.empty() || (entries_.size() < own_.messages && nbytes <= own_.nbytes &&
                              nbytes_ <= own_.nbytes - nbytes);
}

void Outbox::add(Outgoing message) {
  const std::uint64_t sequence = first_ + entries_.size();
  message.begin.sequence = sequence;
  nbytes_ += message.nbytes;
  entries_.push_back({.message = std::move(message), .sequence = sequence});
}

void Outbox::rewind(const Welcome& welcome) {
  if (welcome.received + 1 < first_ || welcome.received > highest_) {
    throw_invalid("[transport] expected a peer that has received up to message ", first_ - 1,
                  " to ", highest_, ", got ", welcome.received, ".");
  }
  peer_ = {.messages = welcome.window_messages, .nbytes = welcome.window_bytes};
  writing_ = welcome.received + 1;
  written_ = 0;
  has_begun_ = false;
  written_bytes_ = 0;
  for (std::uint64_t sequence = first_; sequence < writing_; ++sequence) {
    written_bytes_ += entry(sequence).message.nbytes;
  }
}

bool Outbox::may_begin(const Entry& entry) const {
  if (entry.sequence == first_) {
    return true;
  }
  const std::size_t nbytes = written_bytes_ + entry.message.nbytes;
  return entry.sequence - first_ < peer_.messages && nbytes <= peer_.nbytes;
}

std::optional<OutFrame> Outbox::next_frame(TimePoint now) {
  if (writing_ >= first_ + entries_.size()) {
    last_chunk_.reset();
    return std::nullopt;
  }
  const Entry& now_writing = entry(writing_);
  if (!has_begun_ && !may_begin(now_writing)) {
    last_chunk_.reset();
    return std::nullopt;
  }
  adapt_chunk(now);
  OutFrame frame;
  if (has_begun_) {
    frame.head = Piece{.sequence = writing_, .offset = written_};
  } else {
    frame.head = now_writing.message.begin;
    resent_ += writing_ <= highest_ ? 1 : 0;
    highest_ = std::max(highest_, writing_);
    has_begun_ = true;
  }
  frame.payload = cut(now_writing);
  finish_if_whole(now_writing);
  return frame;
}

std::vector<Bytes> Outbox::cut(const Entry& entry) {
  std::vector<Bytes> parts;
  std::size_t room = chunk_;
  std::size_t skip = written_;
  for (const Bytes& tensor : entry.message.body) {
    if (skip >= tensor.size()) {
      skip -= tensor.size();
      continue;
    }
    const std::size_t size = std::min(room, tensor.size() - skip);
    if (size == 0) {
      break;
    }
    parts.push_back(tensor.slice(skip, size));
    room -= size;
    written_ += size;
    skip = 0;
  }
  return parts;
}

void Outbox::finish_if_whole(const Entry& entry) {
  if (written_ == entry.message.nbytes) {
    written_bytes_ += entry.message.nbytes;
    ++writing_;
    written_ = 0;
    has_begun_ = false;
  }
}

void Outbox::adapt_chunk(TimePoint now) {
  if (last_chunk_) {
    if (now - *last_chunk_ > kLongChunk) {
      chunk_ = std::max(kSmallestChunk, chunk_ / 2);
    } else if (now - *last_chunk_ < kLongChunk / 10) {
      chunk_ = std::min(largest_chunk_, chunk_ * 2);
    }
  }
  last_chunk_ = now;
}

void Outbox::acknowledge(std::uint64_t taken) {
  if (taken >= writing_) {
    throw_invalid("[transport] expected an acknowledgement of messages up to ", writing_ - 1,
                  ", got ", taken, ".");
  }
  while (first_ <= taken) {
    nbytes_ -= entries_.front().message.nbytes;
    written_bytes_ -= entries_.front().message.nbytes;
    entries_.pop_front();
    ++first_;
  }
}

}  // namespace ravnest::transport
