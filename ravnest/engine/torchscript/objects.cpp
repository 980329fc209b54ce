#include "ravnest/engine/torchscript/objects.h"

#include <algorithm>

#include "ravnest/base/error.h"

namespace ravnest::engine {

namespace {

std::string join(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

bool is_same_tensor(const ScriptValue& a, const ScriptValue& b) {
  const auto* one = a.find<Dynamic>();
  const auto* other = b.find<Dynamic>();
  return one != nullptr && other != nullptr && one->id == other->id;
}

// What forward must not change: it would be there in the next call.
void mark_as_attribute(const ScriptValue& value) {
  if (ScriptList* list = value.list()) {
    list->is_attribute = true;
    std::ranges::for_each(list->items, mark_as_attribute);
  } else if (ScriptDict* dict = value.dict()) {
    dict->is_attribute = true;
    for (const auto& [key, item] : dict->items) {
      mark_as_attribute(item);
    }
  }
}

}  // namespace

ScriptObjects::ScriptObjects(const torch::jit::Module& root, bool training, Lift lift)
    : lift_(std::move(lift)),
      training_(training),
      keep_own_modes_(root.hasattr("training") && root.is_training()) {}

ScriptValue ScriptObjects::object(const c10::intrusive_ptr<c10::ivalue::Object>& object,
                                  const std::string& path) {
  auto& found = objects_[object.get()];
  if (!found) {
    found = std::make_shared<ScriptObject>(
        ScriptObject{.type = object->type(), .object = object, .path = path, .attributes = {}});
  }
  return {found};
}

bool ScriptObjects::training_of(const ScriptObject& module) const {
  return training_ && (!keep_own_modes_ || module.object->getAttr("training").toBool());
}

ScriptValue ScriptObjects::read(ScriptObject& object, const std::string& name) {
  if (const auto found = object.attributes.find(name); found != object.attributes.end()) {
    return found->second;
  }
  if (!object.object) {
    return {Unknown{.reason = concat("attribute '", name, "', which was never set"),
                    .where = "forward"}};
  }
  if (object.type->is_module() && name == "training") {
    return known(training_of(object));
  }
  const std::string path = join(object.path, name);
  const c10::IValue value = object.object->getAttr(name);
  ScriptValue read = value.isObject() ? this->object(value.toObject(), path) : lift_(value, path);
  mark_as_attribute(read);
  object.attributes[name] = read;
  return read;
}

std::string ScriptObjects::assign(ScriptObject& object, const std::string& name,
                                  ScriptValue value) {
  if (!object.object) {
    object.attributes[name] = std::move(value);
    return "";
  }
  const ScriptValue before = read(object, name);
  if (is_same_tensor(before, value)) {
    return "";
  }
  const auto* old_constant = before.find<c10::IValue>();
  const auto* new_constant = value.find<c10::IValue>();
  if (old_constant != nullptr && new_constant != nullptr && *old_constant == *new_constant) {
    return "";
  }
  const auto slot = object.type->findAttributeSlot(name);
  const bool is_buffer = object.type->is_module() && slot && object.type->is_buffer(*slot);
  if (!is_buffer || value.find<Dynamic>() == nullptr || before.find<Dynamic>() == nullptr) {
    return "only buffers can be assigned a tensor, everything else must stay as it is";
  }
  const ScriptValue buffer = lift_(object.object->getSlot(*slot), join(object.path, name));
  const auto found = std::ranges::find_if(
      assigned_, [&](const auto& pair) { return is_same_tensor(pair.first, buffer); });
  if (found == assigned_.end()) {
    assigned_.emplace_back(buffer, value);
  } else {
    found->second = value;
  }
  object.attributes[name] = std::move(value);
  return "";
}

}  // namespace ravnest::engine
