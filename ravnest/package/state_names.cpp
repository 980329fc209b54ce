#include "ravnest/package/state_names.h"

#include <limits>
#include <set>

#include "ravnest/base/error.h"

namespace ravnest::package {

namespace {

constexpr const char* kParameter = "parameter";
constexpr const char* kBuffer = "buffer";

Json entry_json(const graph::Program& program, const graph::Weight& weight) {
  const std::string& first = program.canonical(weight).name;
  Json shape = Json::array();
  for (const graph::Expr& size : weight.type.sizes) {
    RAVNEST_CHECK(size.is_constant());
    shape.push_back(size.constant());
  }
  return {{"name", weight.name},
          {"kind", weight.kind == graph::InputKind::kParameter ? kParameter : kBuffer},
          {"dtype", graph::long_name_of(weight.type.dtype)},
          {"shape", std::move(shape)},
          {"tied_to", first == weight.name ? Json(nullptr) : Json(first)}};
}

StateName read_entry(const Field& field) {
  StateName entry{.name = field.at("name").text(), .dtype = field.at("dtype").text()};
  const std::string kind = field.at("kind").text();
  if (kind != kParameter && kind != kBuffer) {
    field.at("kind").refuse("'parameter' or 'buffer'");
  }
  entry.is_parameter = kind == kParameter;
  for (const Field& size : field.at("shape").items()) {
    entry.sizes.push_back(size.integer(0, std::numeric_limits<std::int64_t>::max()));
  }
  if (!field.at("tied_to").is_null()) {
    entry.tied_to = field.at("tied_to").text();
  }
  return entry;
}

}  // namespace

Json state_dict_json(const graph::Program& program) {
  Json list = Json::array();
  for (const graph::Weight& weight : program.weights) {
    if (weight.in_state_dict()) {
      list.push_back(entry_json(program, weight));
    }
  }
  return list;
}

std::vector<StateName> read_state_names(const Field& list) {
  std::vector<StateName> entries;
  std::set<std::string> names;
  for (const Field& item : list.items()) {
    entries.push_back(read_entry(item));
    if (!names.insert(entries.back().name).second) {
      item.at("name").refuse("no name twice");
    }
  }
  return entries;
}

}  // namespace ravnest::package
