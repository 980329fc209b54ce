#include "ravnest/transport/session/assembler.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::transport {

namespace {

constexpr const char* kNoMemory =
    "messages that nobody has taken yet fill the memory allowed for them";
constexpr std::size_t kMostIdleBytes = std::size_t{64} << 20;
constexpr std::size_t kFirstRoom = std::size_t{64} << 10;
// A part may hold the whole block in memory that it was read into, so there may be only so many.
constexpr std::size_t kFewParts = 16;
constexpr std::size_t kMeanPart = std::size_t{4} << 10;

Codec checked_codec(std::uint32_t numbers, bool zstd) {
  if (numbers > static_cast<std::uint32_t>(Numbers::kInt8Rows)) {
    throw_invalid("[transport] expected a known codec, got number ", numbers, ".");
  }
  return {.numbers = static_cast<Numbers>(numbers), .zstd = zstd};
}

bool is_coded(const TensorClaim& claim) {
  return checked_codec(claim.numbers, claim.zstd) != Codec{};
}

// zstd writes incompressible bytes with a little around them; a sender leaves it out then.
void check_coded_size(const TensorClaim& claim, const Limits& limits) {
  const Codec codec = checked_codec(claim.numbers, claim.zstd);
  const std::size_t coded = checked_coded_bytes(codec.numbers, claim.dtype, claim.shape, limits);
  if (codec.zstd ? claim.nbytes > coded : claim.nbytes != coded) {
    throw_invalid("[transport] expected ", coded, codec.zstd ? " bytes or fewer" : " bytes",
                  " for the tensor's shape and codec, got ", claim.nbytes, ".");
  }
}

}  // namespace

Assembler::Assembler(const Limits& limits, std::shared_ptr<Budget> budget, bool takes_parts)
    : limits_(limits),
      takes_parts_(takes_parts),
      budget_(std::move(budget)),
      pool_(std::make_shared<BufferPool>(kMostIdleBytes)),
      held_(budget_) {}

void Assembler::check_header(const Begin& begin) const {
  if (!find_message_kind(begin.kind)) {
    throw_invalid("[transport] expected a known kind of message, got number ", begin.kind, ".");
  }
  if (begin.tensors.size() > limits_.tensors || begin.fields.size() > limits_.fields ||
      begin.metadata.size() > limits_.metadata_bytes) {
    throw_invalid("[transport] expected a message of at most ", limits_.tensors, " tensors, ",
                  limits_.fields, " fields and ", limits_.metadata_bytes,
                  " bytes of metadata, got ", begin.tensors.size(), ", ", begin.fields.size(),
                  " and ", begin.metadata.size(), ".");
  }
  static_cast<void>(checked_codec(begin.numbers, begin.zstd));
}

void Assembler::check_tensors(const Begin& begin) {
  total_ = 0;
  decoded_ = 0;
  for (const TensorClaim& claim : begin.tensors) {
    check_coded_size(claim, limits_);
    total_ += claim.nbytes;
    decoded_ += checked_tensor_bytes(claim.dtype, claim.shape, limits_);
    // Here, not after the loop: one tensor is within its limit, so no sum can overflow.
    if (std::max(total_, decoded_) > limits_.message_bytes) {
      throw_invalid("[transport] expected a message of at most ", limits_.message_bytes,
                    " bytes, got tensors of more.");
    }
  }
}

void Assembler::begin(const Begin& begin, Payload payload, const PayloadOwner& owner) {
  if (is_busy_) {
    throw BrokenStream("a message began before the last one was whole");
  }
  check_header(begin);
  check_tensors(begin);
  header_ = begin;
  is_in_parts_ = takes_parts_ && std::ranges::none_of(begin.tensors, is_coded);
  parts_.clear();
  tensors_.clear();
  tensors_.resize(begin.tensors.size());
  filling_ = 0;
  received_ = 0;
  is_busy_ = true;
  append(payload, owner);
}

void Assembler::add(const Piece& piece, Payload payload, const PayloadOwner& owner) {
  if (!is_busy_ || piece.sequence != header_.sequence || piece.offset != received_) {
    throw BrokenStream("a part of a message is missing");
  }
  append(payload, owner);
}

bool Assembler::may_keep(Payload payload, const PayloadOwner& owner) const {
  std::size_t nbytes = received_;
  for (const auto& bytes : payload) {
    nbytes += bytes.size();
  }
  return owner && parts_.size() + payload.size() <= kFewParts + nbytes / kMeanPart;
}

void Assembler::put_together() {
  is_in_parts_ = false;
  for (const Bytes& part : parts_) {
    append(part.view());
  }
  parts_.clear();
}

void Assembler::append(Payload payload, const PayloadOwner& owner) {
  if (is_in_parts_ && !may_keep(payload, owner)) {
    put_together();
  }
  for (const auto& bytes : payload) {
    if (bytes.size() > total_ - received_) {
      throw_invalid("[transport] expected a body of ", total_, " bytes, got more.");
    }
    if (!held_.extend(bytes.size())) {
      throw BrokenStream(kNoMemory);
    }
    if (is_in_parts_) {
      parts_.emplace_back(owner, bytes);
    } else {
      append(bytes);
    }
    received_ += bytes.size();
  }
}

void Assembler::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t wanted = header_.tensors[filling_].nbytes;
    Buffer& tensor = tensors_[filling_];
    const std::size_t size = std::min(bytes.size(), wanted - tensor.size());
    if (tensor.capacity() == 0) {
      tensor = pool_->get(wanted);
    }
    if (tensor.size() + size > tensor.capacity()) {
      const std::size_t trusted = std::max({kFirstRoom, largest_whole_, 2 * tensor.size() + size});
      tensor.reserve(std::min(wanted, trusted));
    }
    tensor.append(bytes.first(size));
    bytes = bytes.subspan(size);
    if (tensor.size() == wanted) {
      largest_whole_ = std::max(largest_whole_, wanted);
      ++filling_;
    }
  }
}

Assembled Assembler::take() {
  RAVNEST_CHECK(is_whole());
  if (decoded_ > total_ && !held_.extend(decoded_ - total_)) {
    throw BrokenStream(kNoMemory);
  }
  Assembled whole{.message = {.kind = *find_message_kind(header_.kind),
                              .pass = header_.pass,
                              .epoch = header_.epoch,
                              .fields = std::move(header_.fields),
                              .metadata = std::move(header_.metadata),
                              .codec = checked_codec(header_.numbers, header_.zstd)},
                  .parts = std::exchange(parts_, {})};
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    TensorClaim& claim = header_.tensors[i];
    Bytes bytes;
    if (!is_in_parts_) {
      bytes = decode(pool_->share(std::move(tensors_[i])), checked_codec(claim.numbers, claim.zstd),
                     claim.dtype, claim.shape, limits_);
    }
    whole.message.tensors.push_back({.dtype = static_cast<graph::DType>(claim.dtype),
                                     .shape = std::move(claim.shape),
                                     .bytes = std::move(bytes)});
  }
  whole.held = std::exchange(held_, Reservation(budget_));
  is_busy_ = false;
  return whole;
}

void Assembler::reset() {
  parts_.clear();
  tensors_.clear();
  held_.clear();
  is_busy_ = false;
}

}  // namespace ravnest::transport
