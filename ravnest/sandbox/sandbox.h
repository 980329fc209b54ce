#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ravnest::sandbox {

struct SandboxOptions {
  // The process's own folders: below them it reads, writes, makes and removes. They must exist.
  std::vector<std::filesystem::path> writable;
  // Further files and folders that it only reads. They must exist.
  std::vector<std::filesystem::path> readable;
  // The TCP ports that it may listen at; 0 stands for one that the system chooses.
  std::vector<std::uint16_t> bind_ports;
  // The TCP ports that it may connect to, on whatever machine; all where not given.
  std::optional<std::vector<std::uint16_t>> connect_ports;
  // What it may allocate, its program included. Memory that processes share is not counted.
  std::optional<std::uint64_t> memory_bytes;
  // How large a file may become.
  std::optional<std::uint64_t> file_bytes;
};

// What this kernel could do.
struct SandboxReport {
  int landlock_abi = 0;         // 0: the kernel has none
  bool closes_files = false;    // what is outside its folders
  bool closes_ports = false;    // TCP
  bool closes_signals = false;  // and abstract sockets, of processes outside
  bool filters_calls = false;   // system calls
  std::string lacking;          // a sentence for people; empty where nothing is missing
};

// Closes this process in, for good, with all that it starts later. Called once, by the process
// itself, when its libraries are loaded, before it has a second thread and before it reads
// anything that came from outside. Descriptors that are open stay usable. Where the kernel lacks
// something the rest is done, and the report says so. Throws std::invalid_argument for a folder
// that is not there and for a second thread, and Error(kIo) where the kernel refuses a step that
// it has; the process must then end, since some steps may be done.
SandboxReport enter(const SandboxOptions& options);

}  // namespace ravnest::sandbox
