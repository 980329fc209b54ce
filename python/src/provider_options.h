#pragma once

#include "given.h"
#include "ravnest/provider/provider.h"

namespace ravnest::python {

// What `Node` was told, as the core has it. Each takes its own.
provider::ProviderOptions to_provider_options(Given& given);
provider::ProviderCallbacks to_callbacks(Given& given);

py::list to_python_list(std::vector<c10::IValue> values);

// The value that has this name; a complaint lists all.
template <typename Value>
Value named(const char* what, const std::string& name,
            const std::vector<std::pair<const char*, Value>>& known) {
  std::string names;
  for (const auto& [each, value] : known) {
    if (name == each) {
      return value;
    }
    names += concat(names.empty() ? "" : " or ", each);
  }
  throw_invalid("[node] expected ", what, " to be ", names, ", got '", name, "'.");
}

}  // namespace ravnest::python
