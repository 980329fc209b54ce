#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ravnest/graph/program.h"

namespace ravnest::engine {

// What a value of a TorchScript program is while its forward is being flattened: known now,
// computed when the Program runs, or a container of both. Containers are shared, because
// TorchScript's lists, dicts and objects are references.

struct ScriptValue;

// A value of the graph.
struct Dynamic {
  graph::ValueId id = 0;
};

// A tensor without dimensions that stands for a number, as tracing makes of sizes.
// `tensor` is set where the tensor itself exists already, or cannot be made.
struct NumberTensor {
  std::shared_ptr<const ScriptValue> number;
  std::shared_ptr<const ScriptValue> tensor;
};

// The sizes of a tensor whose rank is unknown.
struct ShapeOf {
  graph::ValueId tensor = 0;
};

// Something that cannot be told; whoever needs it is refused with the reason.
struct Unknown {
  std::string reason;            // "the value of a tensor"
  std::string where;             // "/home/me/models.py:12"
  bool is_control_flow = false;  // the reason is a branch or a loop
};

struct ScriptList;
struct ScriptTuple;
struct ScriptDict;
struct ScriptObject;

struct ScriptValue {
  // An IValue here is known and holds no tensor, container or object.
  std::variant<c10::IValue, Dynamic, NumberTensor, ShapeOf, Unknown, std::shared_ptr<ScriptList>,
               std::shared_ptr<ScriptTuple>, std::shared_ptr<ScriptDict>,
               std::shared_ptr<ScriptObject>>
      content;

  template <typename T>
  const T* find() const {
    return std::get_if<T>(&content);
  }
  ScriptList* list() const { return pointer<ScriptList>(); }
  ScriptTuple* tuple() const { return pointer<ScriptTuple>(); }
  ScriptDict* dict() const { return pointer<ScriptDict>(); }
  ScriptObject* object() const { return pointer<ScriptObject>(); }

  bool is_none() const;
  // The number, if it is known to be one.
  std::optional<std::int64_t> find_int() const;

 private:
  template <typename T>
  T* pointer() const {
    const auto* shared = std::get_if<std::shared_ptr<T>>(&content);
    return shared == nullptr ? nullptr : shared->get();
  }
};

struct ScriptList {
  c10::TypePtr element_type;
  std::vector<ScriptValue> items;
  bool is_attribute = false;  // of the module: forward must not change it
};

struct ScriptTuple {
  c10::TypePtr type;
  std::vector<ScriptValue> items;
};

struct ScriptDict {
  c10::TypePtr key_type;
  c10::TypePtr value_type;
  std::vector<std::pair<c10::IValue, ScriptValue>> items;
  bool is_attribute = false;

  ScriptValue* find(const c10::IValue& key);
};

// A module (with its path from the root) or an object that forward makes. `attributes` are the
// ones that forward has set or read.
struct ScriptObject {
  c10::ClassTypePtr type;
  c10::intrusive_ptr<c10::ivalue::Object> object;
  std::string path;
  std::map<std::string, ScriptValue> attributes;
};

ScriptValue known(c10::IValue value);
ScriptValue make_list(c10::TypePtr element_type, std::vector<ScriptValue> items);
ScriptValue make_tuple(c10::TypePtr type, std::vector<ScriptValue> items);

// Throws std::invalid_argument with the reason and the ways out.
[[noreturn]] void refuse_unknown(const Unknown& unknown);

// The first Unknown in a value, at any depth.
const Unknown* find_unknown(const ScriptValue& value);
const Unknown* find_unknown(const std::vector<ScriptValue>& values);
// Whether nothing in it has to be computed at run time.
bool is_fully_known(const ScriptValue& value);

// Whether the type is a tensor or has tensors in it.
bool holds_tensors(const c10::Type& type);

}  // namespace ravnest::engine
