#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace ravnest::agent {

// What this machine has for a stage.
struct Machine {
  double ram_gb = 0.0;
  std::int64_t threads = 1;
};

// Memory that is free now and cores that this process may use, as far as its control groups let it:
// in a container that is less than the machine has. `root` is where /proc and /sys are, for tests.
Machine look_at_machine(const std::filesystem::path& root = "/");

// The program beside this one, or of this name on the PATH.
std::filesystem::path find_program(const std::string& name);

}  // namespace ravnest::agent
