#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/coordinator/change.h"
#include "ravnest/coordinator/durable.h"

namespace ravnest::coordinator {

// The durable state and its changes as JSON. Readers are strict: every key must be there, of its
// type, and no other; they throw std::invalid_argument that names the way to what is wrong.

std::string to_json(std::span<const Change> changes);
std::vector<Change> read_changes(std::string_view json);

std::string to_json(const Durable& durable);
// What is derived is made again, and the whole is checked; see derive().
Durable read_durable(std::string_view json);

}  // namespace ravnest::coordinator
