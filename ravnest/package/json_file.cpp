#include "ravnest/package/json_file.h"

#include "ravnest/base/bytes.h"
#include "ravnest/base/error.h"
#include "ravnest/base/json_text.h"

namespace ravnest::package {

namespace {

constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMaxShown = 80;

std::string laid_out(const Json& value, int levels) {
  if (levels == 0 || !value.is_structured() || value.empty()) {
    return value.dump();
  }
  const std::string indent(levels == 2 ? 2 : 4, ' ');
  std::string text;
  for (const auto& [key, item] : value.items()) {
    text += concat(text.empty() ? "" : ",", "\n", indent,
                   value.is_object() ? Json(key).dump() + ": " : "", laid_out(item, levels - 1));
  }
  return concat(value.is_object() ? "{" : "[", text, "\n", indent.substr(2),
                value.is_object() ? "}" : "]");
}

}  // namespace

void write_json(const Json& object, const std::filesystem::path& path, Durability durability) {
  std::string text;
  try {
    text = laid_out(object, 2) + "\n";
  } catch (const Json::exception&) {
    throw_invalid("[package] cannot write '", path.string(), "': expected names in UTF-8.");
  }
  AtomicFile file(path);
  file.write(text);
  file.commit(durability);
}

Json read_json(const std::filesystem::path& path) {
  const Bytes bytes = Bytes::map_file(path);
  if (bytes.size() > kMaxBytes) {
    throw_invalid("[package] '", path.string(), "': expected at most ", kMaxBytes, " bytes, got ",
                  bytes.size(), ".");
  }
  const char* begin = reinterpret_cast<const char*>(bytes.data());
  if (is_deeper_than({begin, bytes.size()}, kMaxDepth)) {
    throw_invalid("[package] '", path.string(), "': expected JSON of at most ", kMaxDepth,
                  " levels.");
  }
  try {
    return Json::parse(begin, begin + bytes.size());
  } catch (const Json::exception& error) {
    throw_invalid("[package] '", path.string(), "' is not valid JSON: ", error.what(), ".");
  }
}

Field Field::at(const char* key) const {
  if (!value_->is_object()) {
    refuse("an object");
  }
  std::string inner = key_.empty() ? key : key_ + "." + key;
  const auto found = value_->find(key);
  if (found == value_->end()) {
    throw_invalid("[package] '", file_.string(), "': expected '", inner, "', which is missing.");
  }
  return {*found, file_, std::move(inner)};
}

std::vector<Field> Field::items() const {
  if (!value_->is_array()) {
    refuse("a list");
  }
  std::vector<Field> fields;
  for (const Json& item : *value_) {
    fields.push_back(Field(item, file_, concat(key_, "[", fields.size(), "]")));
  }
  return fields;
}

std::vector<std::pair<std::string, Field>> Field::entries() const {
  if (!value_->is_object()) {
    refuse("an object");
  }
  std::vector<std::pair<std::string, Field>> fields;
  for (const auto& [key, item] : value_->items()) {
    fields.emplace_back(key, Field(item, file_, concat(key_, "['", key, "']")));
  }
  return fields;
}

std::string Field::text() const {
  if (!value_->is_string() || value_->get_ref<const std::string&>().empty()) {
    refuse("text");
  }
  return value_->get<std::string>();
}

std::vector<std::string> Field::texts() const {
  std::vector<std::string> all;
  for (const Field& item : items()) {
    all.push_back(item.text());
  }
  return all;
}

std::int64_t Field::integer(std::int64_t least, std::int64_t most) const {
  // A number above the signed range would wrap in get<int64_t>.
  const bool fits = value_->is_number_integer() &&
                    (!value_->is_number_unsigned() ||
                     value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  if (!fits || value_->get<std::int64_t>() < least || value_->get<std::int64_t>() > most) {
    refuse(concat("a whole number from ", least, " to ", most));
  }
  return value_->get<std::int64_t>();
}

std::size_t Field::count(std::size_t least, std::size_t most) const {
  return static_cast<std::size_t>(
      integer(static_cast<std::int64_t>(least), static_cast<std::int64_t>(most)));
}

void Field::refuse(const std::string& wanted) const {
  std::string got = value_->dump(-1, ' ', true, Json::error_handler_t::replace);
  if (got.size() > kMaxShown) {
    got = got.substr(0, kMaxShown) + "...";
  }
  throw_invalid("[package] '", file_.string(), "', '", key_, "': expected ", wanted, ", got ", got,
                ".");
}

}  // namespace ravnest::package
