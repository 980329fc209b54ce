#pragma once

#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ravnest/engine/torchscript/value.h"

namespace ravnest::engine {

// The modules of a model as forward sees them: their attributes, their mode, and what forward
// assigned to them. The model itself is never changed.
class ScriptObjects {
 public:
  // Turns a constant into a script value, given a name for the tensors in it.
  using Lift = std::function<ScriptValue(const c10::IValue&, const std::string&)>;

  ScriptObjects(const torch::jit::Module& root, bool training, Lift lift);

  // The object at this path; every object has the first path it was met under.
  ScriptValue object(const c10::intrusive_ptr<c10::ivalue::Object>& object,
                     const std::string& path);
  ScriptValue read(ScriptObject& object, const std::string& name);
  // Returns why it cannot be assigned; empty if it is.
  std::string assign(ScriptObject& object, const std::string& name, ScriptValue value);

  // Buffers and what forward assigned to them last.
  const std::vector<std::pair<ScriptValue, ScriptValue>>& assigned_buffers() const {
    return assigned_;
  }

 private:
  bool training_of(const ScriptObject& module) const;

  Lift lift_;
  bool training_;
  // A model that was saved in eval mode says nothing about which modules train.
  bool keep_own_modes_;
  std::unordered_map<const void*, std::shared_ptr<ScriptObject>> objects_;
  std::vector<std::pair<ScriptValue, ScriptValue>> assigned_;
};

}  // namespace ravnest::engine
