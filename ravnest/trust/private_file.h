#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace ravnest::trust {

// A small file that its owner alone may read: written whole or not at all, never readable by others
// in between. Both throw Error(kIo) that names the file.
void write_private_file(const std::filesystem::path& path, const std::string& text);
// Throws std::invalid_argument where others may read or write it, or where it is larger.
std::string read_private_file(const std::filesystem::path& path, std::size_t limit);

// A small file that everybody may read.
void write_public_file(const std::filesystem::path& path, const std::string& text);
std::string read_public_file(const std::filesystem::path& path, std::size_t limit);

}  // namespace ravnest::trust
