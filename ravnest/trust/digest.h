#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace ravnest::trust {

inline constexpr std::size_t kDigestBytes = 32;

// A SHA-256.
using Digest = std::array<std::byte, kDigestBytes>;

// SHA-256 of bytes that come in parts.
class Sha256 {
 public:
  Sha256();

  void add(std::span<const std::byte> part);
  void add(std::string_view part) { add(std::as_bytes(std::span(part))); }
  // Of all parts; begins anew afterwards.
  Digest finish();

 private:
  std::shared_ptr<evp_md_ctx_st> context_;
};

Digest sha256(std::span<const std::byte> bytes);
Digest sha256(std::string_view text);
// Reads the file in parts: memory does not grow with its size. Throws Error(kIo) that names it.
Digest sha256_file(const std::filesystem::path& path);

// 64 lower-case hexadecimal digits, and back. Throws std::invalid_argument.
std::string to_hex(const Digest& digest);
Digest parse_digest(std::string_view hex);

// Takes as long for two that differ early as for two that differ late, so that nobody can find a
// secret byte by byte. False at once where the sizes differ.
bool is_equal(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace ravnest::trust
