#pragma once

#include <filesystem>
#include <vector>

namespace ravnest::sandbox {

// What this program reads to work at all: its file, the folders of the libraries that it has
// loaded, and what the C library, OpenMP, OpenSSL and name services look up. Some may not exist.
std::vector<std::filesystem::path> needed_files();

}  // namespace ravnest::sandbox
