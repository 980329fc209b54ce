#include "ravnest/trust/token_record.h"

#include "ravnest/base/error.h"

namespace ravnest::trust {

TokenRecord record_of(const Token& token, const TokenTerms& terms) {
  return {.secret_hash = token.secret.hash(),
          .role = token.role,
          .expires = terms.expires,
          .uses_left = terms.uses};
}

Redeemed redeem(std::span<TokenRecord> records, const Digest& secret_hash, WallTime now) {
  TokenRecord* found = nullptr;
  for (TokenRecord& record : records) {
    found = is_equal(record.secret_hash, secret_hash) ? &record : found;
  }
  if (found == nullptr) {
    return {.role = {}, .reason = "the token is not known here."};
  }
  if (now >= found->expires) {
    return {.role = {}, .reason = concat("the token expired on ", to_text(found->expires), ".")};
  }
  if (found->uses_left == 0) {
    return {.role = {}, .reason = "the token has been used up."};
  }
  --found->uses_left;
  return {.role = found->role, .reason = {}};
}

}  // namespace ravnest::trust
