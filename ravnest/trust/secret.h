#pragma once

#include <array>
#include <cstddef>
#include <ostream>
#include <span>

#include "ravnest/trust/digest.h"

namespace ravnest::trust {

inline constexpr std::size_t kSecretBytes = 32;

// 256 bits that only two sides know. It does not print, so it cannot get into a log by accident,
// and leaves no copy in memory when it goes.
class Secret {
 public:
  static Secret make();
  // Throws std::invalid_argument unless there are 32 bytes.
  explicit Secret(std::span<const std::byte> bytes);
  ~Secret();
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;

  std::span<const std::byte> bytes() const { return bytes_; }
  // What a server keeps in its place. The secret is random, so that this cannot be turned around.
  Digest hash() const;

 private:
  std::array<std::byte, kSecretBytes> bytes_{};
};

std::ostream& operator<<(std::ostream&, const Secret&) = delete;

}  // namespace ravnest::trust
