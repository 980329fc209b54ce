#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace ravnest {

// For tests: a named place at which this process can be made to stop, as by SIGSTOP, so that a
// fault hits it there and nowhere else. Whoever started the process then kills it, or lets it go
// on. Does nothing unless RAVNEST_FAULT_POINTS in its environment is the number of a descriptor
// that it inherited, of a file that begins with a FaultOrder. Any thread. Throws
// std::invalid_argument where that is something else.
void fault_point(std::string_view name);

// Given by the test through the file, at any time; a process and those that it starts share one.
struct FaultOrder {
  std::array<char, 56> name{};        // of the point; written while `left` is 0
  std::atomic<std::int32_t> left{0};  // times until it is reached for the last time; 0: no order
  std::atomic<std::int32_t> hit{0};   // the process that stopped
};
static_assert(sizeof(FaultOrder) == 64 && std::atomic<std::int32_t>::is_always_lock_free);

}  // namespace ravnest
