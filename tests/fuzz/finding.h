#pragma once

#include <cstdlib>
#include <stdexcept>

namespace ravnest {

// Ends the run where libFuzzer keeps the input.
inline void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

// The input may be refused with std::invalid_argument; anything else is a finding.
template <typename Run>
bool accepted(Run&& run) {
  try {
    run();
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

}  // namespace ravnest
