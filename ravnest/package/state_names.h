#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/package/json_file.h"
#include "ravnest/package/package.h"

namespace ravnest::package {

// The state dict of a whole model as model_inputs.json lists it.
Json state_dict_json(const graph::Program& program);
std::vector<StateName> read_state_names(const Field& list);

}  // namespace ravnest::package
