#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/durable.h"
#include "ravnest/coordinator/limits.h"

namespace ravnest::coordinator {

// Structures that name their fields once (fields.h), as JSON and back. Readers are strict: every
// key must be there, of its type, and no other.

using Json = nlohmann::json;

// Writing ----------------------------------------------------------------------------------------

// Straight to text: a job of many providers has line-ups of many, each of which is told them all.
class Writer {
 public:
  explicit Writer(std::string& text) : text_(text) {}

  template <typename T>
  void operator()(const char* key, const T& value) {
    text_ += text_.back() == '{' ? "\"" : ",\"";
    text_ += key;
    text_ += "\":";
    add(value);
  }

  void add(std::string_view value);
  void add(const std::string& value) { add(std::string_view(value)); }
  void add(std::int64_t value) { text_ += std::to_string(value); }
  void add(bool value) { text_ += value ? "true" : "false"; }
  void add(double value) { text_ += Json(value).dump(); }

  template <typename T>
    requires std::is_enum_v<T>
  void add(T value) {
    add(std::string_view(to_string(value)));
  }

  template <typename T>
  void add(const std::vector<T>& values) {
    add_list(values, [this](const T& value) { add(value); });
  }

  // As pairs: keys may be numbers.
  template <typename Key, typename T>
  void add(const std::map<Key, T>& values) {
    add_list(values, [this](const auto& entry) {
      text_ += '[';
      add(entry.first);
      text_ += ',';
      add(entry.second);
      text_ += ']';
    });
  }

  template <typename T>
  void add(const std::optional<T>& value) {
    if (value) {
      add(*value);
    } else {
      text_ += "null";
    }
  }

  template <typename T>
    requires std::is_class_v<T>
  void add(const T& value) {
    text_ += '{';
    fields(*this, value);
    text_ += '}';
  }

  // One of several, with its name under `key`.
  template <typename Variant, typename Names>
  void add_variant(const Variant& variant, const Names& names, const char* key) {
    text_ += '{';
    (*this)(key, names[variant.index()]);
    std::visit([this](const auto& each) { fields(*this, each); }, variant);
    text_ += '}';
  }

 private:
  void add_list(const auto& values, const auto& add_one) {
    text_ += '[';
    for (bool is_first = true; const auto& value : values) {
      text_ += std::exchange(is_first, false) ? "" : ",";
      add_one(value);
    }
    text_ += ']';
  }

  std::string& text_;
};

template <typename T>
std::string write(const T& value) {
  std::string text;
  Writer(text).add(value);
  return text;
}

template <typename Variant, typename Names>
std::string write_variant(const Variant& variant, const Names& names, const char* key) {
  std::string text;
  Writer(text).add_variant(variant, names, key);
  return text;
}

// Reading ----------------------------------------------------------------------------------------

[[noreturn]] inline void refuse(const std::string& where, const char* expected) {
  throw_invalid("[coordinator] expected ", expected, " at '", where, "', got something else.");
}

template <typename T>
void read(const Json& json, const std::string& where, T& value);

template <typename T>
void read_enum(const Json& json, const std::string& where, int last, T& value) {
  if (json.is_string()) {
    for (int i = 0; i <= last; ++i) {
      if (json.get_ref<const std::string&>() == to_string(static_cast<T>(i))) {
        value = static_cast<T>(i);
        return;
      }
    }
  }
  refuse(where, "a known word");
}

inline void read_one(const Json& json, const std::string& where, std::string& value) {
  if (!json.is_string()) {
    refuse(where, "text");
  }
  value = json.get<std::string>();
}

inline void read_one(const Json& json, const std::string& where, std::int64_t& value) {
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() &&
       json.get<std::uint64_t>() > static_cast<std::uint64_t>(kLargestNumber)) ||
      (!json.is_number_unsigned() && json.get<std::int64_t>() < -kLargestNumber)) {
    refuse(where, "an integer of at most 10^15");
  }
  value = json.get<std::int64_t>();
}

inline void read_one(const Json& json, const std::string& where, bool& value) {
  if (!json.is_boolean()) {
    refuse(where, "true or false");
  }
  value = json.get<bool>();
}

// Finite: JSON knows no other.
inline void read_one(const Json& json, const std::string& where, double& value) {
  if (!json.is_number()) {
    refuse(where, "a number");
  }
  value = json.get<double>();
}

inline void read_one(const Json& json, const std::string& where, Role& value) {
  read_enum(json, where, static_cast<int>(Role::kRequester), value);
}

inline void read_one(const Json& json, const std::string& where, Origin& value) {
  read_enum(json, where, static_cast<int>(Origin::kCheckpoint), value);
}

inline void read_one(const Json& json, const std::string& where, Phase& value) {
  read_enum(json, where, static_cast<int>(Phase::kCancelled), value);
}

template <typename T>
void read_one(const Json& json, const std::string& where, std::vector<T>& values) {
  if (!json.is_array()) {
    refuse(where, "a list");
  }
  for (const Json& item : json) {
    read(item, where, values.emplace_back());
  }
}

template <typename Key, typename T>
void read_one(const Json& json, const std::string& where, std::map<Key, T>& values) {
  if (!json.is_array()) {
    refuse(where, "a list of pairs");
  }
  for (const Json& item : json) {
    Key key{};
    if (!item.is_array() || item.size() != 2) {
      refuse(where, "a pair");
    }
    read(item[0], where, key);
    const auto [place, is_new] = values.emplace(key, T{});
    if (!is_new) {
      refuse(where, "each key once");
    }
    read(item[1], where, place->second);
  }
}

template <typename T>
void read_one(const Json& json, const std::string& where, std::optional<T>& value) {
  if (!json.is_null()) {
    read(json, where, value.emplace());
  }
}

struct Reader {
  const Json& object;
  const std::string& where;
  std::size_t count = 0;

  template <typename T>
  void operator()(const char* key, T& value) {
    const auto found = object.find(key);
    if (found == object.end()) {
      refuse(where + "." + key, "a value");
    }
    read(*found, where + "." + key, value);
    ++count;
  }
};

// With `extra` keys that were read elsewhere.
template <typename T>
void read_object(const Json& json, const std::string& where, std::size_t extra, T& value) {
  if (!json.is_object()) {
    refuse(where, "an object");
  }
  Reader reader{json, where};
  fields(reader, value);
  if (reader.count + extra != json.size()) {
    refuse(where, "no other keys");
  }
}

template <typename T>
concept HasFields = requires(Reader& reader, T& value) { fields(reader, value); };

template <typename T>
void read(const Json& json, const std::string& where, T& value) {
  if constexpr (HasFields<T>) {
    read_object(json, where, 0, value);
  } else {
    read_one(json, where, value);
  }
}

// One of several, by its name under `key`.
template <typename Variant, std::size_t Index = 0, typename Names>
Variant read_alternative(const Json& json, const std::string& name, const Names& names,
                         const std::string& where) {
  if constexpr (Index < std::variant_size_v<Variant>) {
    if (name != names[Index]) {
      return read_alternative<Variant, Index + 1>(json, name, names, where);
    }
    std::variant_alternative_t<Index, Variant> value;
    read_object(json, where, 1, value);
    return value;
  } else {
    refuse(where, "a known kind");
  }
}

template <typename Variant, typename Names>
Variant read_variant(const Json& json, const Names& names, const char* key,
                     const std::string& where) {
  std::string name;
  if (!json.is_object() || !json.contains(key)) {
    refuse(where, "an object of a known kind");
  }
  read(json[key], where, name);
  return read_alternative<Variant>(json, name, names, where);
}

// Throws std::invalid_argument for what is no JSON, or too deep.
Json parse_json(std::string_view text);

// Text from outside may be any bytes; what is no UTF-8 is replaced, so that a name cannot cut off
// whoever reads this.
template <typename AnyJson>
std::string dump(const AnyJson& json) {
  return json.dump(-1, ' ', false, AnyJson::error_handler_t::replace);
}

}  // namespace ravnest::coordinator
