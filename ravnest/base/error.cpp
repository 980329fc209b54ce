#include "ravnest/base/error.h"

#include <cerrno>
#include <cstring>

namespace ravnest {

void throw_io(const std::string& path, const char* verb) {
  throw Error(ErrorKind::kIo,
              concat("[base] cannot ", verb, " '", path, "': ", std::strerror(errno), "."));
}

void check_failed(const char* condition, const char* file, int line) {
  throw std::logic_error(concat("[ravnest] a check that should always hold failed: ", condition,
                                " at ", file, ":", line, ". Please report it."));
}

}  // namespace ravnest
