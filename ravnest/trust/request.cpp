#include "ravnest/trust/request.h"

#include "ravnest/trust/encoding.h"
#include "ravnest/trust/openssl.h"

namespace ravnest::trust {

namespace {

constexpr const char* kRequestLabel = "CERTIFICATE REQUEST";

}  // namespace

Request Request::make(const PrivateKey& key) {
  RequestPtr request(::X509_REQ_new());
  RAVNEST_CHECK(request != nullptr);
  RAVNEST_CHECK(::X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1);
  RAVNEST_CHECK(::X509_REQ_set_pubkey(request.get(), key.get()) == 1);
  RAVNEST_CHECK(::X509_REQ_sign(request.get(), key.get(), ::EVP_sha256()) > 0);
  return Request(std::move(request));
}

Request Request::parse(std::string_view pem) {
  const ErrorScope errors;
  const auto der = read_one_pem(pem, kRequestLabel, kMaxRequestBytes, "a certificate request");
  auto request = read_der<RequestPtr>(&::d2i_X509_REQ, der);
  EVP_PKEY* key = request ? ::X509_REQ_get0_pubkey(request.get()) : nullptr;
  if (key == nullptr || !is_p256(key)) {
    throw std::invalid_argument(
        "[trust] expected a certificate request with a key on the curve P-256, got another.");
  }
  if (::X509_REQ_verify(request.get(), key) != 1) {
    throw std::invalid_argument(
        "[trust] expected a certificate request signed with its own key, got another signature.");
  }
  return Request(std::move(request));
}

std::string Request::to_pem() const {
  return encode_pem({.label = kRequestLabel, .der = write_der(&::i2d_X509_REQ, request_.get())});
}

evp_pkey_st* Request::public_key() const { return ::X509_REQ_get0_pubkey(request_.get()); }

}  // namespace ravnest::trust
