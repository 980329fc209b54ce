#include <complex>

#include "ravnest/base/error.h"
#include "ravnest/graph/pt2/json.h"

namespace ravnest::graph::pt2 {

namespace {

template <typename Convert>
List list_of(ListKind kind, const Json& items, Convert&& convert) {
  if (!items.is_array()) {
    throw_invalid("expected a list, got ", items.type_name());
  }
  List list{.kind = kind, .items = {}};
  list.items.reserve(items.size());
  for (const Json& item : items) {
    list.items.emplace_back().value = convert(item);
  }
  return list;
}

// As list_of, for converters that give whole arguments.
template <typename Convert>
List collect(ListKind kind, const Json& items, Convert&& convert) {
  return list_of(kind, items, [&](const Json& item) { return convert(item).value; });
}

// A union inside a union: {"as_name": "s"}, {"as_int": 3}, {"as_tensor": …}, ….
Argument read_symbolic(const Json& value, const Names& names) {
  const auto [tag, content] = variant_of(value);
  if (tag == "as_name") {
    return {use(names, text(content))};
  }
  return read_argument(value, names);
}

Argument read_enum(std::string_view tag, std::int64_t code) {
  if (tag == "as_scalar_type") {
    if (const auto dtype = find_dtype(code)) {
      return {*dtype};
    }
  } else if (tag == "as_memory_format") {
    if (const auto format = find_memory_format(code)) {
      return {*format};
    }
  } else if (code == 7) {
    return {None{}};  // strided, the default and the only layout there is here
  }
  throw_invalid("expected a known value for '", tag, "', got ", code);
}

Argument read_list(std::string_view tag, const Json& items, const Names& names) {
  const auto tensor = [&](const Json& item) -> Argument {
    return {use(names, string_of(item, "name"))};
  };
  const auto symbolic = [&](const Json& item) { return read_symbolic(item, names); };
  if (tag == "as_tensors") {
    return {collect(ListKind::kTensors, items, tensor)};
  }
  if (tag == "as_optional_tensors") {
    return {collect(ListKind::kOptionalTensors, items, symbolic)};
  }
  if (tag == "as_ints") {
    return {list_of(ListKind::kInts, items, integer)};
  }
  if (tag == "as_floats") {
    return {list_of(ListKind::kFloats, items, floating)};
  }
  if (tag == "as_bools") {
    return {list_of(ListKind::kBools, items, boolean)};
  }
  if (tag == "as_strings") {
    return {list_of(ListKind::kStrings, items, text)};
  }
  if (tag == "as_sym_ints") {
    return {collect(ListKind::kInts, items, symbolic)};
  }
  if (tag == "as_sym_floats") {
    return {collect(ListKind::kFloats, items, symbolic)};
  }
  if (tag == "as_sym_bools") {
    return {collect(ListKind::kBools, items, symbolic)};
  }
  if (tag == "as_int_lists") {
    return {list_of(ListKind::kLists, items,
                    [](const Json& inner) { return list_of(ListKind::kInts, inner, integer); })};
  }
  if (tag == "as_float_lists") {
    return {list_of(ListKind::kLists, items,
                    [](const Json& inner) { return list_of(ListKind::kFloats, inner, floating); })};
  }
  if (tag == "as_nested_tensors") {
    return {list_of(ListKind::kLists, items,
                    [&](const Json& inner) { return collect(ListKind::kTensors, inner, tensor); })};
  }
  throw_invalid("arguments of kind '", tag, "' are not supported");
}

}  // namespace

Ref use(const Names& names, const std::string& name) {
  const auto found = names.find(name);
  if (found == names.end()) {
    throw_invalid("value '", name, "' is used but not defined before");
  }
  return {found->second};
}

Argument read_argument(const Json& argument, const Names& names) {
  const auto [tag, content] = variant_of(argument);
  if (tag == "as_none") {
    return {None{}};
  }
  if (tag == "as_tensor") {
    return {use(names, string_of(content, "name"))};
  }
  if (tag == "as_int") {
    return {integer(content)};
  }
  if (tag == "as_float") {
    return {floating(content)};
  }
  if (tag == "as_bool") {
    return {boolean(content)};
  }
  if (tag == "as_string") {
    return {text(content)};
  }
  if (tag == "as_device") {
    return {read_device(content)};
  }
  if (tag == "as_complex") {
    return {
        std::complex<double>(floating(member(content, "real")), floating(member(content, "imag")))};
  }
  if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool" ||
      tag == "as_optional_tensor") {
    return read_symbolic(content, names);
  }
  if (tag == "as_scalar_type" || tag == "as_memory_format" || tag == "as_layout") {
    return read_enum(tag, integer(content));
  }
  return read_list(tag, content, names);
}

}  // namespace ravnest::graph::pt2
