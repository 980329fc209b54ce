#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>

#include "ravnest/trust/identity.h"

namespace ravnest::transport {

// The same member, by a certificate that nobody but its own key signed.
inline trust::Identity self_signed(trust::Identity identity) {
  X509* copy = ::X509_dup(identity.certificate.get());
  ::X509_set_issuer_name(copy, ::X509_get_subject_name(copy));
  EXPECT_GT(::X509_sign(copy, identity.key.get(), ::EVP_sha256()), 0);
  identity.certificate = trust::Certificate(std::shared_ptr<X509>(copy, &::X509_free));
  return identity;
}

}  // namespace ravnest::transport
