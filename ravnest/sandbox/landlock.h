#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace ravnest::sandbox {

struct LandlockRules {
  std::vector<std::filesystem::path> writable;
  std::vector<std::filesystem::path> readable;
  std::vector<std::filesystem::path> devices;  // files that are there to be read and written
  std::vector<std::uint16_t> bind_ports;
  std::optional<std::vector<std::uint16_t>> connect_ports;
};

// The version of Landlock that this kernel has; 0 for none.
int landlock_abi();

// Refuses this thread, and those that it starts, all files and ports but these, as far as the
// version goes. The process must have given up new privileges. Paths that are not there are
// passed over. Throws Error(kIo).
void restrict_to(const LandlockRules& rules, int abi);

}  // namespace ravnest::sandbox
