#include "ravnest/agent/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "ravnest/base/error.h"

namespace ravnest::agent {

namespace fs = std::filesystem;

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The first number in a file; nothing where there is none ("max").
std::optional<double> read_number(const fs::path& path) {
  std::ifstream file(path);
  double number = 0.0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// The number after this word, at the beginning of a line; 0 where there is none.
double number_after(const fs::path& path, const std::string& wanted) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key;
    double number = 0.0;
    if (words >> key >> number && key == wanted) {
      return number;
    }
  }
  return 0.0;
}

double available_bytes(const fs::path& root) {
  return 1024.0 * number_after(root / "proc/meminfo", "MemAvailable:");
}

// The folders of this process's control group and of those that hold it: a limit of any counts.
// Version 2 has one line, "0::/path".
std::vector<fs::path> group_folders(const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("0::/")) {
      continue;
    }
    const fs::path top = root / "sys/fs/cgroup";
    std::vector<fs::path> folders;
    for (fs::path path = top / line.substr(4); path.string().size() >= top.string().size();
         path = path.parent_path()) {
      folders.push_back(path);
    }
    return folders;
  }
  return {};
}

double group_bytes(const fs::path& folder) {
  const auto most = read_number(folder / "memory.max");
  const auto used = read_number(folder / "memory.current");
  // Copies of files that nobody has used for a while go when memory is needed.
  const double idle = number_after(folder / "memory.stat", "inactive_file");
  return most ? std::clamp(*most - used.value_or(0.0) + idle, 0.0, *most) : kUnlimited;
}

double group_cores(const fs::path& folder) {
  std::ifstream file(folder / "cpu.max");
  double quota = 0.0;
  double period = 0.0;
  return file >> quota >> period && period > 0.0 ? quota / period : kUnlimited;
}

}  // namespace

Machine look_at_machine(const fs::path& root) {
  double bytes = available_bytes(root);
  cpu_set_t cores;
  double threads = ::sched_getaffinity(0, sizeof(cores), &cores) == 0
                       ? static_cast<double>(CPU_COUNT(&cores))
                       : 1.0;
  for (const fs::path& folder : group_folders(root)) {
    bytes = std::min(bytes, group_bytes(folder));
    threads = std::min(threads, group_cores(folder));
  }
  return {.ram_gb = bytes / 1e9, .threads = std::max<std::int64_t>(1, std::lround(threads))};
}

fs::path find_program(const std::string& name) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error && fs::exists(self.parent_path() / name)) {
    return self.parent_path() / name;
  }
  return name;
}

}  // namespace ravnest::agent
