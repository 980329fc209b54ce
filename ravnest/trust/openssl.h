#pragma once

// For the sources of this folder: OpenSSL's objects in unique_ptrs, and its errors as checks.

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <climits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/base/error.h"

namespace ravnest::trust {

template <auto Free>
struct FreeWith {
  template <typename Kind>
  void operator()(Kind* object) const {
    Free(object);
  }
};

using BignumPtr = std::unique_ptr<BIGNUM, FreeWith<&::BN_free>>;
using CertificatePtr = std::unique_ptr<X509, FreeWith<&::X509_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, FreeWith<&::X509_EXTENSION_free>>;
using GeneralNamesPtr = std::unique_ptr<GENERAL_NAMES, FreeWith<&::GENERAL_NAMES_free>>;
using IntegerPtr = std::unique_ptr<ASN1_INTEGER, FreeWith<&::ASN1_INTEGER_free>>;
using KeyContextPtr = std::unique_ptr<EVP_PKEY_CTX, FreeWith<&::EVP_PKEY_CTX_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeWith<&::EVP_PKEY_free>>;
using Pkcs8Ptr = std::unique_ptr<PKCS8_PRIV_KEY_INFO, FreeWith<&::PKCS8_PRIV_KEY_INFO_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, FreeWith<&::X509_REQ_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, FreeWith<&::X509_STORE_CTX_free>>;
using StorePtr = std::unique_ptr<X509_STORE, FreeWith<&::X509_STORE_free>>;

// OpenSSL keeps the errors of a thread until somebody takes them; gRPC's calls on the same thread
// would find ours and take them for their own.
class ErrorScope {
 public:
  ErrorScope() { ::ERR_set_mark(); }
  ~ErrorScope() { ::ERR_pop_to_mark(); }
  ErrorScope(const ErrorScope&) = delete;
  ErrorScope& operator=(const ErrorScope&) = delete;
};

// Reads an object with one of the d2i_… functions; empty unless it takes up all bytes.
template <typename Pointer, typename Read>
Pointer read_der(Read read, std::span<const std::byte> der) {
  if (der.size() > LONG_MAX) {
    return nullptr;
  }
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const auto* end = at + der.size();
  Pointer object(read(nullptr, &at, static_cast<long>(der.size())));
  return at == end ? std::move(object) : nullptr;
}

// Writes an object with one of the i2d_… functions.
template <typename Write, typename Kind>
std::vector<std::byte> write_der(Write write, Kind* object) {
  const int size = write(object, nullptr);
  RAVNEST_CHECK(size > 0);
  std::vector<std::byte> der(static_cast<std::size_t>(size));
  auto* at = reinterpret_cast<unsigned char*>(der.data());
  RAVNEST_CHECK(write(object, &at) == size);
  return der;
}

// Whether a key is what all of ours are: EC on the named curve P-256, its point on the curve.
bool is_p256(const EVP_PKEY* key);

// The one block of a text, of at most so many bytes. Throws std::invalid_argument that says what
// was expected: "a certificate".
std::vector<std::byte> read_one_pem(std::string_view text, const std::string& label,
                                    std::size_t limit, const char* expected);

}  // namespace ravnest::trust
