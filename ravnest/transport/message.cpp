#include "ravnest/transport/message.h"

#include <algorithm>
#include <array>

namespace ravnest::transport {

namespace {

struct KindRow {
  MessageKind kind;
  std::string_view name;
};

constexpr std::array kKinds{
    KindRow{MessageKind::kForward, "forward"},
    KindRow{MessageKind::kBackward, "backward"},
    KindRow{MessageKind::kNoGradForward, "no-grad forward"},
    KindRow{MessageKind::kResult, "result"},
    KindRow{MessageKind::kControl, "control"},
    KindRow{MessageKind::kReduce, "reduce"},
};

}  // namespace

std::string_view name_of(MessageKind kind) {
  return std::ranges::find(kKinds, kind, &KindRow::kind)->name;
}

std::optional<MessageKind> find_message_kind(std::int64_t number) {
  const auto* found = std::ranges::find_if(kKinds, [number](const KindRow& row) {
    return static_cast<std::int64_t>(row.kind) == number;
  });
  return found == kKinds.end() ? std::nullopt : std::optional(found->kind);
}

}  // namespace ravnest::transport
