#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ravnest::trust {

// Bytes as text and back. Readers are strict: one text for the same bytes, and nothing for what
// is not exactly that, so that whoever calls can say what was expected.

std::string encode_hex(std::span<const std::byte> bytes);

// base64url (RFC 4648, section 5) without padding: safe in a shell, a file name and a link.
std::string encode_base64url(std::span<const std::byte> bytes);
std::optional<std::vector<std::byte>> decode_base64url(std::string_view text);

// One block of a PEM file (RFC 7468, its strict form).
struct PemBlock {
  std::string label;  // "CERTIFICATE"
  std::vector<std::byte> der;
};

std::string encode_pem(const PemBlock& block);
// All blocks of a text that holds nothing else.
std::optional<std::vector<PemBlock>> decode_pem(std::string_view text);

}  // namespace ravnest::trust
