// Reads the input as frames of the wire, each after a length of two bytes, and gives them to one
// end of a channel. The receiving end reads headers, tensors, codecs and sequence numbers; the
// sending end welcomes, acks and refusals. The first byte says which end, by its highest bit, and
// in parts of how many bytes a frame lies in memory.

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "ravnest/transport/grpc/frame_format.h"
#include "ravnest/transport/session/receiver_session.h"
#include "ravnest/transport/session/sender_session.h"

namespace ravnest::transport {
namespace {

// Goes nowhere.
class DeadEnd : public Stream {
 public:
  void wake() override {}
  void abort(const std::string&) override {}
  std::string remote() const override { return "fuzz"; }
};

std::shared_ptr<SessionContext> context() {
  static const auto kContext = std::make_shared<SessionContext>(TransportOptions{
      .name = "node_1",
      .limits = {.tensor_bytes = 1 << 20, .message_bytes = 1 << 22, .held_bytes = 1 << 22},
      .window = {.messages = 4, .nbytes = 1 << 20}});
  return kContext;
}

void check_message(const Message& message) {
  for (const Tensor& tensor : message.tensors) {
    static_cast<void>(checked_tensor_view(tensor, context()->options.limits));
    unsigned sum = 0;
    for (const std::byte byte : tensor.bytes.view()) {
      sum += static_cast<unsigned>(byte);  // every byte is there
    }
    static_cast<void>(sum);
  }
}

std::vector<std::span<const std::byte>> in_parts(std::span<const std::byte> bytes,
                                                 std::size_t size) {
  std::vector<std::span<const std::byte>> parts;
  for (; size > 0 && bytes.size() > size; bytes = bytes.subspan(size)) {
    parts.push_back(bytes.first(size));
  }
  parts.push_back(bytes);
  return parts;
}

// A frame that was read can be written, and is the same then.
void check_round_trip(const InFrame& frame) {
  const std::string head = write_head(frame.head, 0);
  const auto bytes = std::as_bytes(std::span(head));
  const std::vector<std::span<const std::byte>> parts{bytes};
  if (write_head(read_frame(parts).head, 0) != head) {
    std::abort();
  }
}

class ReceivingEnd {
 public:
  ReceivingEnd() {
    const Handler handler{.on_message = [](const Delivery& got) { check_message(got.message); }};
    session_ =
        std::make_shared<ReceiverSession>(context(), Peer{.name = "node_0"}, "forward", handler);
    const Hello hello{.from = "node_0", .to = "node_1", .channel = "forward", .instance = 1};
    static_cast<void>(session_->attach(std::make_shared<DeadEnd>(), hello, connection_));
  }
  ~ReceivingEnd() { session_->break_off("done"); }
  ReceivingEnd(const ReceivingEnd&) = delete;
  ReceivingEnd& operator=(const ReceivingEnd&) = delete;

  void hear(const InFrame& frame) {
    session_->on_frame(connection_, frame);
    static_cast<void>(session_->next_frame(connection_));
  }

 private:
  std::shared_ptr<ReceiverSession> session_;
  std::uint64_t connection_ = 0;
};

// Keeps the owner of the connection that was asked for last.
class DeadEndCarrier : public Carrier {
 public:
  void start(Accept) override {}
  void check(const Peer&) const override {}
  std::shared_ptr<Stream> connect(const Peer&, std::shared_ptr<StreamOwner> owner) override {
    owner_ = std::move(owner);
    return std::make_shared<DeadEnd>();
  }
  std::string address() const override { return "fuzz"; }
  void stop() override { owner_.reset(); }

  const std::shared_ptr<StreamOwner>& owner() const { return owner_; }

 private:
  std::shared_ptr<StreamOwner> owner_;
};

class SendingEnd {
 public:
  SendingEnd()
      : session_(std::make_shared<SenderSession>(context(), carrier_, Peer{.name = "node_2"},
                                                 "forward")) {
    const Tensor tensor{.dtype = graph::DType::kUInt8,
                        .shape = {100'000},
                        .bytes = Bytes::take(std::vector<std::byte>(100'000))};
    for (int i = 0; i < 3; ++i) {
      session_->send({.tensors = {tensor}}, Milliseconds(0));
    }
  }
  ~SendingEnd() {
    session_->break_off("done");
    carrier_.stop();
  }
  SendingEnd(const SendingEnd&) = delete;
  SendingEnd& operator=(const SendingEnd&) = delete;

  void hear(const InFrame& frame) {
    now_ += std::chrono::seconds(1);  // long enough for another attempt to connect
    static_cast<void>(session_->tick(now_));
    const auto owner = carrier_.owner();
    while (owner->next_frame().frame) {
    }
    owner->on_frame(frame);
    while (owner->next_frame().frame) {
    }
  }

 private:
  DeadEndCarrier carrier_;
  std::shared_ptr<SenderSession> session_;
  TimePoint now_ = context()->now();
};

template <typename End>
void hear_all(std::span<const std::byte> bytes, std::size_t part) {
  End end;
  while (bytes.size() >= 2) {
    const std::size_t wanted =
        static_cast<std::size_t>(bytes[0]) | static_cast<std::size_t>(bytes[1]) << 8;
    bytes = bytes.subspan(2);
    const auto frame_bytes = bytes.first(std::min(wanted, bytes.size()));
    bytes = bytes.subspan(frame_bytes.size());
    try {
      const auto parts = in_parts(frame_bytes, part);
      const InFrame frame = read_frame(parts);
      check_round_trip(frame);
      end.hear(frame);
    } catch (const std::invalid_argument&) {
    } catch (const BrokenStream&) {
    }
  }
}

}  // namespace
}  // namespace ravnest::transport

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest::transport;
  std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  if (bytes.empty()) {
    return 0;
  }
  const auto first = static_cast<std::size_t>(bytes[0]);
  constexpr std::size_t kSendingEnd = 0x80;
  if ((first & kSendingEnd) != 0) {
    hear_all<SendingEnd>(bytes.subspan(1), first & ~kSendingEnd);
  } else {
    hear_all<ReceivingEnd>(bytes.subspan(1), first);
  }
  return 0;
}
