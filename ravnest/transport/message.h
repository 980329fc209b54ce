#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/transport/codec/codec.h"
#include "ravnest/transport/tensor.h"

namespace ravnest::transport {

// What a message is about. Numbered as on the wire.
enum class MessageKind : std::uint8_t {
  kForward = 1,
  kBackward = 2,
  kNoGradForward = 3,
  kResult = 4,
  kControl = 5,
  kReduce = 6,
};

std::string_view name_of(MessageKind kind);
std::optional<MessageKind> find_message_kind(std::int64_t number);

// What goes from one node to another. Copies share the tensors' bytes, and so does the transport
// until the receiver has taken the message: nobody may write to them meanwhile.
struct Message {
  MessageKind kind = MessageKind::kControl;
  std::int64_t pass = 0;
  std::int64_t epoch = 0;            // of the membership or plan that the sender knows
  std::vector<std::int64_t> fields;  // a few more numbers; their meaning goes with the kind
  std::string metadata;              // a small text
  std::vector<Tensor> tensors;
  Codec codec;  // how the sender wants the tensors to travel; on arrival, what it asked for
};

}  // namespace ravnest::transport
