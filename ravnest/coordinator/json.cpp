#include "ravnest/coordinator/json.h"

#include <algorithm>

#include "ravnest/base/json_text.h"
#include "ravnest/coordinator/field_json.h"
#include "ravnest/coordinator/fields.h"

namespace ravnest::coordinator {

namespace {

constexpr std::size_t kDeepest = 16;

}  // namespace

void Writer::add(std::string_view value) {
  // Names and hashes; the rest is escaped.
  const bool is_plain = std::ranges::all_of(
      value, [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
  if (is_plain) {
    text_ += '"';
    text_ += value;
    text_ += '"';
  } else {
    text_ += dump(Json(value));
  }
}

Json parse_json(std::string_view text) {
  if (is_deeper_than(text, kDeepest)) {
    throw_invalid("[coordinator] expected JSON of at most ", kDeepest, " levels, got more.");
  }
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    throw_invalid("[coordinator] expected JSON, got something else.");
  }
  return json;
}

std::string to_json(std::span<const Change> changes) {
  std::string text = "[";
  for (const Change& change : changes) {
    text += text.size() == 1 ? "" : ",";
    Writer(text).add_variant(change, kChangeNames, "change");
  }
  return text + "]";
}

std::vector<Change> read_changes(std::string_view text) {
  const Json json = parse_json(text);
  if (!json.is_array()) {
    refuse("changes", "a list");
  }
  std::vector<Change> changes;
  for (const Json& item : json) {
    const std::string where = concat("changes[", changes.size(), "]");
    changes.push_back(read_variant<Change>(item, kChangeNames, "change", where));
  }
  return changes;
}

std::string to_json(const Durable& durable) { return write(durable); }

Durable read_durable(std::string_view text) {
  Durable durable;
  read(parse_json(text), "state", durable);
  derive(durable);
  return durable;
}

}  // namespace ravnest::coordinator
