#include "ravnest/base/error.h"

namespace ravnest {

void check_failed(const char* condition, const char* file, int line) {
  throw std::logic_error(concat("[ravnest] a check that should always hold failed: ", condition,
                                " at ", file, ":", line, ". Please report it."));
}

}  // namespace ravnest
