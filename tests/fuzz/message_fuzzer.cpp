// Reads the input as frames of the wire, each after a length of two bytes, and gives them to the
// receiving end of a channel: header, tensors, codecs, sequence numbers, windows. The first byte
// says in parts of how many bytes a frame lies in memory.

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "ravnest/transport/grpc/frame_format.h"
#include "ravnest/transport/session/receiver_session.h"

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

class Conversation {
 public:
  Conversation() {
    const Handler handler{.on_message = [](const Delivery& got) { check_message(got.message); }};
    session_ =
        std::make_shared<ReceiverSession>(context(), Peer{.name = "node_0"}, "forward", handler);
    const Hello hello{.from = "node_0", .to = "node_1", .channel = "forward", .instance = 1};
    static_cast<void>(session_->attach(std::make_shared<DeadEnd>(), hello, connection_));
  }
  ~Conversation() { session_->break_off("done"); }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  void hear(std::span<const std::span<const std::byte>> parts) {
    try {
      const InFrame frame = read_frame(parts);
      check_round_trip(frame);
      session_->on_frame(connection_, frame);
      static_cast<void>(session_->next_frame(connection_));
    } catch (const std::invalid_argument&) {
    } catch (const BrokenStream&) {
    }
  }

 private:
  std::shared_ptr<ReceiverSession> session_;
  std::uint64_t connection_ = 0;
};

}  // namespace
}  // namespace ravnest::transport

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest::transport;
  std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  if (bytes.empty()) {
    return 0;
  }
  const auto part = static_cast<std::size_t>(bytes[0]);
  bytes = bytes.subspan(1);
  Conversation conversation;
  while (bytes.size() >= 2) {
    const std::size_t wanted =
        static_cast<std::size_t>(bytes[0]) | static_cast<std::size_t>(bytes[1]) << 8;
    bytes = bytes.subspan(2);
    const auto frame = bytes.first(std::min(wanted, bytes.size()));
    conversation.hear(in_parts(frame, part));
    bytes = bytes.subspan(frame.size());
  }
  return 0;
}
