#include "ravnest/graph/pt2/json.h"

#include <cmath>
#include <limits>

#include "ravnest/base/error.h"
#include "ravnest/base/json_text.h"

namespace ravnest::graph::pt2 {

namespace {

constexpr std::size_t kMaxDepth = 100;
constexpr std::size_t kMaxRank = 64;

template <typename AnyJson>
AnyJson parse_as(const Bytes& bytes, const std::string& label) {
  const char* begin = reinterpret_cast<const char*>(bytes.data());
  if (is_deeper_than({begin, bytes.size()}, kMaxDepth)) {
    throw_invalid("[graph] ", label, " cannot be read: it is nested too deeply.");
  }
  try {
    return AnyJson::parse(begin, begin + bytes.size());
  } catch (const typename AnyJson::exception& error) {
    throw_invalid("[graph] ", label, " is not valid JSON: ", error.what(), ".");
  }
}

}  // namespace

const Json* find_member(const Json& object, const char* key) {
  if (!object.is_object()) {
    throw_invalid("expected an object with '", key, "', got ", object.type_name());
  }
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& member(const Json& object, const char* key) {
  const Json* found = find_member(object, key);
  if (found == nullptr) {
    throw_invalid("expected '", key, "', which is missing");
  }
  return *found;
}

const Json& array_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_array()) {
    throw_invalid("expected a list in '", key, "', got ", value.type_name());
  }
  return value;
}

const Json& object_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_object()) {
    throw_invalid("expected an object in '", key, "', got ", value.type_name());
  }
  return value;
}

std::string string_of(const Json& object, const char* key) { return text(member(object, key)); }

std::int64_t integer(const Json& value) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})) {
    throw_invalid("expected a 64-bit integer, got ", value.type_name());
  }
  return value.get<std::int64_t>();
}

double floating(const Json& value) {
  if (value.is_number()) {
    return value.get<double>();
  }
  // JSON has no such numbers; torch writes them as words.
  const std::string word = text(value);
  if (word == "Infinity") {
    return std::numeric_limits<double>::infinity();
  }
  if (word == "-Infinity") {
    return -std::numeric_limits<double>::infinity();
  }
  if (word == "NaN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  throw_invalid("expected a number, got a string");
}

bool boolean(const Json& value) {
  if (!value.is_boolean()) {
    throw_invalid("expected true or false, got ", value.type_name());
  }
  return value.get<bool>();
}

std::string text(const Json& value) {
  if (!value.is_string()) {
    throw_invalid("expected a string, got ", value.type_name());
  }
  return value.get<std::string>();
}

std::pair<std::string_view, const Json&> variant_of(const Json& value) {
  if (!value.is_object() || value.size() != 1) {
    throw_invalid("expected an object with one tag, got ", value.type_name());
  }
  return {value.begin().key(), *value.begin()};
}

Json parse(const Bytes& bytes, const std::string& label) { return parse_as<Json>(bytes, label); }

OrderedJson parse_ordered(const Bytes& bytes, const std::string& label) {
  return parse_as<OrderedJson>(bytes, label);
}

Expr read_sym_int(const Json& value, std::map<std::string, Symbol>& symbols) {
  const auto [tag, content] = variant_of(value);
  if (tag == "as_int") {
    return integer(content);
  }
  if (tag != "as_expr") {
    throw_invalid("expected a size, got '", tag, "'");
  }
  Expr expr = Expr::parse_srepr(string_of(content, "expr_str"));
  std::set<std::string> names;
  expr.collect_symbols(names);
  for (const std::string& name : names) {
    symbols.try_emplace(name);
  }
  const Json* hint = find_member(content, "hint");
  if (const std::string* name = expr.find_symbol(); name != nullptr && hint != nullptr) {
    symbols[*name].hint = integer(member(*hint, "as_int"));
  }
  return expr;
}

Device read_device(const Json& value) {
  const Json* index = find_member(value, "index");
  return {.type = string_of(value, "type"), .index = index == nullptr ? -1 : integer(*index)};
}

TensorType read_tensor_type(const Json& meta, std::map<std::string, Symbol>& symbols) {
  TensorType type;
  const auto dtype = find_dtype(integer(member(meta, "dtype")));
  if (!dtype) {
    throw_invalid("expected a dtype we compute with, got number ", integer(member(meta, "dtype")));
  }
  type.dtype = *dtype;
  if (integer(member(meta, "layout")) != 7) {
    throw_invalid("expected a dense (strided) tensor, got layout ",
                  integer(member(meta, "layout")));
  }
  const Json& sizes = array_of(meta, "sizes");
  const Json& strides = array_of(meta, "strides");
  if (sizes.size() > kMaxRank || strides.size() != sizes.size()) {
    throw_invalid("expected as many strides as sizes and at most ", kMaxRank, " of them, got ",
                  strides.size(), " and ", sizes.size());
  }
  for (const Json& size : sizes) {
    type.sizes.push_back(read_sym_int(size, symbols));
  }
  for (const Json& stride : strides) {
    type.strides.push_back(read_sym_int(stride, symbols));
  }
  type.storage_offset = read_sym_int(member(meta, "storage_offset"), symbols);
  type.requires_grad = boolean(member(meta, "requires_grad"));
  type.device = read_device(member(meta, "device"));
  return type;
}

}  // namespace ravnest::graph::pt2
