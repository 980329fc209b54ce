#pragma once

#include <cstdint>

namespace ravnest {

// That this process holds; 0 where the system does not say.
std::int64_t resident_bytes();

}  // namespace ravnest
