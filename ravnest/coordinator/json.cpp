#include "ravnest/coordinator/json.h"

#include "ravnest/base/json_text.h"
#include "ravnest/coordinator/field_json.h"
#include "ravnest/coordinator/fields.h"

namespace ravnest::coordinator {

namespace {

constexpr std::size_t kDeepest = 16;

}  // namespace

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
  Json list = Json::array();
  for (const Change& change : changes) {
    list.push_back(write_variant(change, kChangeNames, "change"));
  }
  return list.dump();
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

std::string to_json(const Durable& durable) { return Writer::write(durable).dump(); }

Durable read_durable(std::string_view text) {
  Durable durable;
  read(parse_json(text), "state", durable);
  derive(durable);
  return durable;
}

}  // namespace ravnest::coordinator
