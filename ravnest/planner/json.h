#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace ravnest::planner {

// What people read keeps its order.
using OrderedJson = nlohmann::ordered_json;

inline OrderedJson or_null(const std::optional<double>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

}  // namespace ravnest::planner
