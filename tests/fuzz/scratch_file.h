#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

namespace ravnest {

// A folder in memory, for readers that want files. Goes with the process.
inline const std::filesystem::path& scratch_folder() {
  struct Folder {
    Folder() : path("/dev/shm/ravnest-fuzz-" + std::to_string(::getpid())) {
      std::filesystem::create_directories(path);
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path;
  };
  static const Folder kFolder;
  return kFolder.path;
}

inline void write_bytes(const std::filesystem::path& path, const std::uint8_t* data,
                        std::size_t size) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(data, 1, size, file) != size || std::fclose(file) != 0) {
    std::abort();
  }
}

}  // namespace ravnest
