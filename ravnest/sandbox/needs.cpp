#include "ravnest/sandbox/needs.h"

#include <fstream>
#include <set>
#include <string>

namespace ravnest::sandbox {

namespace {

constexpr const char* kSystemFiles[] = {
    // libraries that are loaded late
    "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache",
    // this process and this machine
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage",
    "/dev/urandom", "/dev/random",
    // names, times, TLS
    "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf",
    "/etc/localtime", "/usr/share/zoneinfo", "/etc/ssl/openssl.cnf"};

bool is_library(const std::filesystem::path& file) {
  return file.filename().string().find(".so") != std::string::npos;
}

// The files that are mapped, from lines of six fields of which the last is the path.
std::set<std::filesystem::path> mapped_files() {
  std::set<std::filesystem::path> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (const std::size_t path = line.find('/'); path != std::string::npos) {
      files.insert(line.substr(path));
    }
  }
  return files;
}

}  // namespace

std::vector<std::filesystem::path> needed_files() {
  std::set<std::filesystem::path> needed(std::begin(kSystemFiles), std::end(kSystemFiles));
  for (const auto& file : mapped_files()) {
    // Around the program itself there may be anything, such as its user's home.
    needed.insert(is_library(file) ? file.parent_path() : file);
  }
  return {needed.begin(), needed.end()};
}

}  // namespace ravnest::sandbox
