#pragma once

#include <string_view>

namespace ravnest::dashboard {

// A file of the folder page/, as it was when the program was built; empty where there is none.
std::string_view find_page_file(std::string_view name);

}  // namespace ravnest::dashboard
