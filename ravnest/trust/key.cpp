#include "ravnest/trust/key.h"

#include <openssl/crypto.h>
#include <openssl/ec.h>

#include "ravnest/trust/encoding.h"
#include "ravnest/trust/openssl.h"

namespace ravnest::trust {

namespace {

constexpr std::size_t kMaxKeyPem = 4096;
constexpr const char* kKeyLabel = "PRIVATE KEY";

// The file has both halves, and they must belong together.
bool is_pair(EVP_PKEY* key) {
  const KeyContextPtr context(::EVP_PKEY_CTX_new_from_pkey(nullptr, key, nullptr));
  return context != nullptr && ::EVP_PKEY_pairwise_check(context.get()) == 1;
}

}  // namespace

PrivateKey PrivateKey::make() {
  KeyPtr key(EVP_EC_gen("P-256"));
  RAVNEST_CHECK(key != nullptr);
  return PrivateKey(std::move(key));
}

PrivateKey PrivateKey::parse(std::string_view pem) {
  const ErrorScope errors;
  std::vector<std::byte> der = read_one_pem(pem, kKeyLabel, kMaxKeyPem, "a private key");
  const auto info = read_der<Pkcs8Ptr>(&::d2i_PKCS8_PRIV_KEY_INFO, der);
  ::OPENSSL_cleanse(der.data(), der.size());
  KeyPtr key(info ? ::EVP_PKCS82PKEY(info.get()) : nullptr);
  if (!key || !is_p256(key.get()) || !is_pair(key.get())) {
    throw std::invalid_argument(
        "[trust] expected a private key on the curve P-256, got another, or a damaged one.");
  }
  return PrivateKey(std::move(key));
}

std::string PrivateKey::to_pem() const {
  const Pkcs8Ptr info(::EVP_PKEY2PKCS8(key_.get()));
  RAVNEST_CHECK(info != nullptr);
  PemBlock block{.label = kKeyLabel, .der = write_der(&::i2d_PKCS8_PRIV_KEY_INFO, info.get())};
  std::string text = encode_pem(block);
  ::OPENSSL_cleanse(block.der.data(), block.der.size());
  return text;
}

}  // namespace ravnest::trust
