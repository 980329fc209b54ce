#pragma once

#include <cstddef>

namespace ravnest::engine {

struct BlockMemory {
  std::size_t in_use = 0;  // bytes of large blocks
  std::size_t kept = 0;    // free, for the next of about the same size
};

// From here on libtorch takes large blocks for tensors on the CPU straight from the system, and
// keeps a few that are free. A training takes the same sizes again and again, so that it finds most
// of them there; glibc's heap, where blocks that live long lie between blocks that do not, grows to
// twice what is alive. For the whole process and for good; the second call does nothing. Any
// thread.
void use_block_allocator();

BlockMemory block_memory();

}  // namespace ravnest::engine
