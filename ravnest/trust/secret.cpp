#include "ravnest/trust/secret.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/trust/random.h"

namespace ravnest::trust {

Secret Secret::make() {
  std::array<std::byte, kSecretBytes> bytes{};
  fill_random(bytes);
  Secret secret(bytes);
  ::OPENSSL_cleanse(bytes.data(), bytes.size());
  return secret;
}

Secret::Secret(std::span<const std::byte> bytes) {
  if (bytes.size() != kSecretBytes) {
    throw_invalid("[trust] expected a secret of ", kSecretBytes, " bytes, got ", bytes.size(), ".");
  }
  std::ranges::copy(bytes, bytes_.begin());
}

Secret::~Secret() { ::OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

Digest Secret::hash() const {
  Sha256 hash;
  hash.add("ravnest token secret\n");
  hash.add(bytes_);
  return hash.finish();
}

}  // namespace ravnest::trust
