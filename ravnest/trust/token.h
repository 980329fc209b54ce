#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "ravnest/trust/digest.h"
#include "ravnest/trust/member.h"
#include "ravnest/trust/secret.h"

namespace ravnest::trust {

// What somebody pastes to join: a secret that opens the door, and the fingerprint of the authority
// that must stand behind it, so that the secret is told to nobody else. It does not print by
// itself; to_text is for the one place that hands it to its owner.
struct Token {
  Role role = Role::kProvider;
  Secret secret;
  Digest fingerprint{};  // of the authority's certificate
};

std::ostream& operator<<(std::ostream&, const Token&) = delete;

Token make_token(Role role, const Digest& fingerprint);

// "ravnest1" and 92 letters, digits, '-' and '_': version, role, secret, fingerprint, checksum.
std::string to_text(const Token& token);
// Space around it is passed over. Throws std::invalid_argument that says what is wrong (cut off,
// mistyped, of a later version), and never repeats any of it.
Token parse_token(std::string_view text);

}  // namespace ravnest::trust
