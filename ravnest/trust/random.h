#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ravnest::trust {

// Fills with bytes that nobody can guess. Throws Error(kIo) where the system has none to give.
void fill_random(std::span<std::byte> bytes);

// So many random bytes in hexadecimal digits, for ids.
std::string random_hex(std::size_t nbytes);

}  // namespace ravnest::trust
