#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "ravnest/coordinator/state.h"

namespace ravnest::agent {

// A line of the process that holds a stage, {"event": …}. It runs a stranger's model: whatever it
// says, what is read here is what the server takes.
class ChildLine {
 public:
  // Nothing where the line is no event.
  static std::optional<ChildLine> read(const std::string& line);

  std::string event() const { return text("event"); }
  // Empty, 0 or false where there is none of its kind.
  std::string text(const char* key) const;
  double number(const char* key) const;
  bool is(const char* key) const;

  // Of a "report".
  coordinator::Report report() const;
  // Of a "checkpoint".
  std::int64_t version() const;

 private:
  explicit ChildLine(nlohmann::json json) : json_(std::move(json)) {}
  const nlohmann::json* find(const char* key) const;

  nlohmann::json json_;
};

}  // namespace ravnest::agent
