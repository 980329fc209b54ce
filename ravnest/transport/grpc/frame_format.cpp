#include "ravnest/transport/grpc/frame_format.h"

#include <google/protobuf/stubs/logging.h>
#include <wire.pb.h>

#include <algorithm>

#include "ravnest/base/error.h"

namespace ravnest::transport {

namespace {

constexpr std::uint8_t kHeadTag = 0x0a;     // field 1, a length and bytes
constexpr std::uint8_t kPayloadTag = 0x12;  // field 2, the same

void write_varint(std::size_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) {
    out.push_back(static_cast<char>(value | 0x80));
  }
  out.push_back(static_cast<char>(value));
}

void set(const Hello& hello, wire::Head& head) {
  wire::Hello& out = *head.mutable_hello();
  out.set_protocol(hello.protocol);
  out.set_plan(hello.plan);
  out.set_from(hello.from);
  out.set_to(hello.to);
  out.set_channel(hello.channel);
  out.set_instance(hello.instance);
  out.set_first(hello.first);
}

void set(const Welcome& welcome, wire::Head& head) {
  wire::Welcome& out = *head.mutable_welcome();
  out.set_instance(welcome.instance);
  out.set_received(welcome.received);
  out.set_window_messages(welcome.window_messages);
  out.set_window_bytes(welcome.window_bytes);
}

void set(const Refusal& refusal, wire::Head& head) {
  head.mutable_refusal()->set_text(refusal.text);
  head.mutable_refusal()->set_try_again(refusal.try_again);
}

void set(const Begin& begin, wire::Head& head) {
  wire::Begin& out = *head.mutable_begin();
  out.set_sequence(begin.sequence);
  out.set_kind(static_cast<std::uint32_t>(begin.kind));
  out.set_pass(begin.pass);
  out.set_epoch(begin.epoch);
  out.mutable_fields()->Add(begin.fields.begin(), begin.fields.end());
  out.set_metadata(begin.metadata);
  for (const TensorClaim& claim : begin.tensors) {
    wire::Tensor& tensor = *out.add_tensors();
    tensor.set_dtype(static_cast<std::uint32_t>(claim.dtype));
    tensor.mutable_shape()->Add(claim.shape.begin(), claim.shape.end());
    tensor.mutable_codec()->set_numbers(claim.numbers);
    tensor.mutable_codec()->set_zstd(claim.zstd);
    tensor.set_nbytes(claim.nbytes);
  }
  out.mutable_codec()->set_numbers(begin.numbers);
  out.mutable_codec()->set_zstd(begin.zstd);
}

void set(const Piece& piece, wire::Head& head) {
  head.mutable_piece()->set_sequence(piece.sequence);
  head.mutable_piece()->set_offset(piece.offset);
}

void set(const Ack& ack, wire::Head& head) { head.mutable_ack()->set_taken(ack.taken); }
void set(const Heartbeat& heartbeat, wire::Head& head) {
  head.mutable_heartbeat()->set_written(heartbeat.written);
}
void set(const Goodbye&, wire::Head& head) { static_cast<void>(head.mutable_goodbye()); }

Hello to_frame(const wire::Hello& hello) {
  return {.protocol = hello.protocol(),
          .plan = hello.plan(),
          .from = hello.from(),
          .to = hello.to(),
          .channel = hello.channel(),
          .instance = hello.instance(),
          .first = hello.first()};
}

Welcome to_frame(const wire::Welcome& welcome) {
  return {.instance = welcome.instance(),
          .received = welcome.received(),
          .window_messages = welcome.window_messages(),
          .window_bytes = welcome.window_bytes()};
}

TensorClaim to_claim(const wire::Tensor& tensor) {
  return {.dtype = tensor.dtype(),
          .shape = {tensor.shape().begin(), tensor.shape().end()},
          .numbers = tensor.codec().numbers(),
          .zstd = tensor.codec().zstd(),
          .nbytes = tensor.nbytes()};
}

Begin to_frame(const wire::Begin& begin) {
  Begin out{.sequence = begin.sequence(),
            .kind = begin.kind(),
            .pass = begin.pass(),
            .epoch = begin.epoch(),
            .fields = {begin.fields().begin(), begin.fields().end()},
            .metadata = begin.metadata(),
            .numbers = begin.codec().numbers(),
            .zstd = begin.codec().zstd()};
  for (const wire::Tensor& tensor : begin.tensors()) {
    out.tensors.push_back(to_claim(tensor));
  }
  return out;
}

FrameHead to_frame(const wire::Head& head) {
  switch (head.kind_case()) {
    case wire::Head::kHello:
      return to_frame(head.hello());
    case wire::Head::kWelcome:
      return to_frame(head.welcome());
    case wire::Head::kRefusal:
      return Refusal{.text = head.refusal().text(), .try_again = head.refusal().try_again()};
    case wire::Head::kBegin:
      return to_frame(head.begin());
    case wire::Head::kPiece:
      return Piece{.sequence = head.piece().sequence(), .offset = head.piece().offset()};
    case wire::Head::kAck:
      return Ack{.taken = head.ack().taken()};
    case wire::Head::kHeartbeat:
      return Heartbeat{.written = head.heartbeat().written()};
    case wire::Head::kGoodbye:
      return Goodbye{};
    case wire::Head::KIND_NOT_SET:
      break;
  }
  throw_invalid("[transport] expected a frame of a known kind, got another.");
}

// Reads bytes that lie in parts.
class PartsReader {
 public:
  explicit PartsReader(std::span<const std::span<const std::byte>> parts)
      : parts_(parts.begin(), parts.end()) {
    for (const auto& part : parts_) {
      left_ += part.size();
    }
    skip_empty();
  }

  std::size_t left() const { return left_; }

  std::uint8_t read_byte() {
    if (left_ == 0) {
      throw_invalid("[transport] expected a whole frame, got its beginning.");
    }
    const auto byte = static_cast<std::uint8_t>(parts_[at_].front());
    advance(1);
    return byte;
  }

  std::size_t read_length() {
    std::size_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      const std::uint8_t byte = read_byte();
      value |= static_cast<std::size_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        return value;
      }
    }
    throw_invalid("[transport] expected a length of at most five bytes, got more.");
  }

  // `size` bytes are there.
  std::string read_text(std::size_t size) {
    std::string text;
    text.reserve(size);
    while (text.size() < size) {
      const auto part = parts_[at_].first(std::min(parts_[at_].size(), size - text.size()));
      text.append(reinterpret_cast<const char*>(part.data()), part.size());
      advance(part.size());
    }
    return text;
  }

  std::vector<std::span<const std::byte>> rest() const {
    return {parts_.begin() + static_cast<std::ptrdiff_t>(at_), parts_.end()};
  }

 private:
  void advance(std::size_t size) {
    parts_[at_] = parts_[at_].subspan(size);
    left_ -= size;
    skip_empty();
  }
  void skip_empty() {
    while (at_ < parts_.size() && parts_[at_].empty()) {
      ++at_;
    }
  }

  std::vector<std::span<const std::byte>> parts_;
  std::size_t at_ = 0;
  std::size_t left_ = 0;
};

FrameHead read_head(PartsReader& reader) {
  if (reader.read_byte() != kHeadTag) {
    throw_invalid("[transport] expected a frame that begins with its head, got another field.");
  }
  const std::size_t size = reader.read_length();
  if (size > kMaxHeadBytes || size > reader.left()) {
    throw_invalid("[transport] expected a head of at most ", std::min(kMaxHeadBytes, reader.left()),
                  " bytes, got ", size, ".");
  }
  // What protobuf has to say of strangers' bytes is not for a user's terminal.
  const google::protobuf::LogSilencer silent;
  wire::Head head;
  if (!head.ParseFromString(reader.read_text(size))) {
    throw_invalid("[transport] expected a head of a frame, got ", size, " other bytes.");
  }
  return to_frame(head);
}

}  // namespace

std::string write_head(const FrameHead& head, std::size_t payload_bytes) {
  wire::Head message;
  std::visit([&](const auto& kind) { set(kind, message); }, head);
  const std::size_t size = message.ByteSizeLong();
  RAVNEST_CHECK(size <= kMaxHeadBytes);
  std::string out;
  out.reserve(size + 16);
  out.push_back(static_cast<char>(kHeadTag));
  write_varint(size, out);
  message.AppendToString(&out);
  if (payload_bytes > 0) {
    out.push_back(static_cast<char>(kPayloadTag));
    write_varint(payload_bytes, out);
  }
  return out;
}

InFrame read_frame(std::span<const std::span<const std::byte>> parts) {
  PartsReader reader(parts);
  InFrame frame{.head = read_head(reader)};
  if (reader.left() == 0) {
    return frame;
  }
  const bool has_body =
      std::holds_alternative<Begin>(frame.head) || std::holds_alternative<Piece>(frame.head);
  if (!has_body || reader.read_byte() != kPayloadTag || reader.read_length() != reader.left()) {
    throw_invalid("[transport] expected a payload to the end of a ", name_of(frame.head),
                  " frame, got something else.");
  }
  frame.payload = reader.rest();
  return frame;
}

}  // namespace ravnest::transport
