#include "ravnest/base/version.h"

namespace ravnest {

const char* version() { return RAVNEST_VERSION; }

}  // namespace ravnest
