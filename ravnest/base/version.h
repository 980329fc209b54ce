#pragma once

namespace ravnest {

// Of this program: "0.1.0".
const char* version();

}  // namespace ravnest
