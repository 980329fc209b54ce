#include "ravnest/agent/process.h"

#include <fstream>
#include <sstream>
#include <string>

#include "ravnest/base/error.h"

namespace ravnest::agent {

namespace fs = std::filesystem;

namespace {

// The number after this word, at the beginning of a line.
std::optional<std::int64_t> find_number(const fs::path& path, const std::string& wanted) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key;
    std::int64_t number = 0;
    if (words >> key >> number && key == wanted) {
      return number;
    }
  }
  return std::nullopt;
}

}  // namespace

std::int64_t effort_of(pid_t process) {
  std::ifstream file(concat("/proc/", process, "/stat"));
  std::string text;
  std::getline(file, text);
  // The name is in brackets, and may be anything. After it: state, 6 numbers, then minflt, cminflt,
  // majflt, cmajflt, utime, stime.
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) {
    return 0;
  }
  std::istringstream words(text.substr(end + 1));
  std::string state;
  std::int64_t ids[6] = {};
  std::int64_t counts[6] = {};
  words >> state;
  for (std::int64_t& each : ids) {
    words >> each;
  }
  std::int64_t sum = 0;
  for (std::int64_t& each : counts) {
    words >> each;
    sum += each;
  }
  return sum;
}

std::int64_t memory_of(pid_t process) {
  return 1024 * find_number(concat("/proc/", process, "/status"), "RssAnon:").value_or(0);
}

std::optional<std::int64_t> count_oom_kills() { return find_number("/proc/vmstat", "oom_kill"); }

std::int64_t size_of_tree(const fs::path& folder) {
  std::int64_t nbytes = 0;
  std::error_code error;  // files come and go
  for (fs::recursive_directory_iterator entry(folder, error); entry != fs::end(entry);
       entry.increment(error)) {
    if (const auto size = entry->file_size(error); !error && entry->is_regular_file(error)) {
      nbytes += static_cast<std::int64_t>(size);
    }
  }
  return nbytes;
}

}  // namespace ravnest::agent
