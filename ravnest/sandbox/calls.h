#pragma once

namespace ravnest::sandbox {

// Refuses this process, with EPERM, the system calls that reach other processes, other
// namespaces, the kernel's inner parts, or networks other than TCP and UDP; and to become another
// program. False where the kernel has no filters. Throws Error(kIo).
bool filter_calls();

}  // namespace ravnest::sandbox
