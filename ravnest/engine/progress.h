#pragma once

#include <atomic>
#include <cstdint>

namespace ravnest::engine {

// Counts the operators that this thread computes, for somebody who watches whether it gets on;
// nullptr: nobody does.
inline thread_local std::atomic<std::uint64_t>* operators_done = nullptr;

}  // namespace ravnest::engine
