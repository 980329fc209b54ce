#include "ravnest/agent/child_line.h"

#include <algorithm>
#include <utility>

#include "ravnest/coordinator/limits.h"

namespace ravnest::agent {

std::optional<ChildLine> ChildLine::read(const std::string& line) {
  ChildLine read(nlohmann::json::parse(line, nullptr, false));
  if (!read.json_.is_object() || read.event().empty()) {
    return std::nullopt;
  }
  return read;
}

const nlohmann::json* ChildLine::find(const char* key) const {
  const auto found = json_.find(key);
  return found == json_.end() ? nullptr : &*found;
}

std::string ChildLine::text(const char* key) const {
  const nlohmann::json* value = find(key);
  return value != nullptr && value->is_string()
             ? value->get<std::string>().substr(0, coordinator::kLongestText)
             : "";
}

double ChildLine::number(const char* key) const {
  constexpr auto kMost = static_cast<double>(coordinator::kLargestNumber);
  const nlohmann::json* value = find(key);
  return value != nullptr && value->is_number() ? std::clamp(value->get<double>(), -kMost, kMost)
                                                : 0.0;
}

bool ChildLine::is(const char* key) const {
  const nlohmann::json* value = find(key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

coordinator::Report ChildLine::report() const {
  const nlohmann::json* accuracy = find("accuracy");
  return {.version = version(),
          .loss = number("loss"),
          .accuracy = accuracy != nullptr && accuracy->is_number() ? number("accuracy") : -1.0,
          .samples_per_second = number("samples_per_second"),
          .delay = number("delay"),
          .memory_bytes = static_cast<std::int64_t>(std::max(0.0, number("memory_bytes"))),
          .send_mbps = number("send_mbps"),
          .receive_mbps = number("receive_mbps"),
          .computing = number("computing"),
          .waiting = number("waiting"),
          .sending = number("sending"),
          .averaging = text("averaging")};
}

std::int64_t ChildLine::version() const {
  return static_cast<std::int64_t>(std::max(0.0, number("version")));
}

}  // namespace ravnest::agent
