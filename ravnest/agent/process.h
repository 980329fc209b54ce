#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace ravnest::agent {

// What the kernel tells of a process that we started: /proc. 0 where it is gone.

// Grows as long as it computes or touches memory, and stands still where it waits or is stopped.
std::int64_t effort_of(pid_t process);
// Bytes that nobody else has: neither files nor libraries.
std::int64_t memory_of(pid_t process);

// How often the kernel has killed a process of this machine for want of memory; nothing where it
// does not count.
std::optional<std::int64_t> count_oom_kills();

// Bytes of all files below a folder.
std::int64_t size_of_tree(const std::filesystem::path& folder);

}  // namespace ravnest::agent
