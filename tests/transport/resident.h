#pragma once

#include <unistd.h>

#include <cstddef>
#include <fstream>

namespace ravnest::transport {

// The memory that this process really has.
inline std::size_t resident_bytes() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace ravnest::transport
