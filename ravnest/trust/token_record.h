#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ravnest/trust/certificate.h"
#include "ravnest/trust/token.h"

namespace ravnest::trust {

// What a server keeps of a token: enough to know it again, not enough to use it.
struct TokenRecord {
  Digest secret_hash{};
  Role role = Role::kProvider;
  WallTime expires;
  std::uint32_t uses_left = 1;
};

struct TokenTerms {
  WallTime expires;
  std::uint32_t uses = 1;
};

TokenRecord record_of(const Token& token, const TokenTerms& terms);

// What became of an attempt to use a token.
struct Redeemed {
  std::optional<Role> role;  // of a token that is good
  std::string reason;        // why not, in a sentence: unknown, expired, used up
};

// Takes one use off the record with this hash. A pure function of its arguments: the server keeps
// the records, and calls it under its own lock. Looks at every record, whichever it is.
Redeemed redeem(std::span<TokenRecord> records, const Digest& secret_hash, WallTime now);

}  // namespace ravnest::trust
