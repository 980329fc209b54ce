#pragma once

// What the .pt2 reader's files share: typed access to JSON that comes from
// outside. Every getter throws std::invalid_argument naming the key.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ravnest/base/bytes.h"
#include "ravnest/graph/program.h"

namespace ravnest::graph::pt2 {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

const Json& member(const Json& object, const char* key);
const Json* find_member(const Json& object, const char* key);
const Json& array_of(const Json& object, const char* key);
const Json& object_of(const Json& object, const char* key);
std::string string_of(const Json& object, const char* key);
std::int64_t integer(const Json& value);
double floating(const Json& value);
bool boolean(const Json& value);
std::string text(const Json& value);

// A tagged union `{"as_int": 3}`: its tag and its content.
std::pair<std::string_view, const Json&> variant_of(const Json& value);

// Parses with a limit on nesting; `label` is used in errors.
Json parse(const Bytes& bytes, const std::string& label);
// The same, with the keys of objects in the order of the file.
OrderedJson parse_ordered(const Bytes& bytes, const std::string& label);

// Collects what expressions tell about the symbols they use.
Expr read_sym_int(const Json& value, std::map<std::string, Symbol>& symbols);
TensorType read_tensor_type(const Json& meta, std::map<std::string, Symbol>& symbols);
Device read_device(const Json& value);

// The values that a graph has defined so far, by name.
using Names = std::unordered_map<std::string, ValueId>;
Ref use(const Names& names, const std::string& name);
// An argument of an op or an output of a graph, as a tagged union.
Argument read_argument(const Json& argument, const Names& names);

// One graph of an archive ("models/<name>.json" parsed).
Graph read_graph(const Json& exported, std::map<std::string, std::string>& metadata);

}  // namespace ravnest::graph::pt2
