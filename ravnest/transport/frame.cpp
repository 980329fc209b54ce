#include "ravnest/transport/frame.h"

#include <array>

namespace ravnest::transport {

std::string_view name_of(const FrameHead& head) {
  constexpr std::array<std::string_view, std::variant_size_v<FrameHead>> kNames{
      "hello", "welcome", "refusal", "begin", "piece", "ack", "heartbeat", "goodbye"};
  return kNames[head.index()];
}

}  // namespace ravnest::transport
