#include "ravnest/base/resident_bytes.h"

#include <unistd.h>

#include <fstream>

namespace ravnest {

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace ravnest
