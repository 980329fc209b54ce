#include "ravnest/trust/certificate.h"

#include <ctime>
#include <optional>

#include "ravnest/trust/encoding.h"
#include "ravnest/trust/openssl.h"

namespace ravnest::trust {

namespace {

constexpr std::size_t kMaxCertificatePem = std::size_t{16} << 10;
constexpr const char* kCertificateLabel = "CERTIFICATE";

std::string_view text_of(const ASN1_STRING* text) {
  const auto size = static_cast<std::size_t>(::ASN1_STRING_length(text));
  return {reinterpret_cast<const char*>(::ASN1_STRING_get0_data(text)), size};
}

std::optional<WallTime> time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (::ASN1_TIME_to_tm(time, &parts) != 1) {
    return std::nullopt;
  }
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

// The only common name.
std::optional<std::string_view> common_name(const X509* certificate) {
  const X509_NAME* subject = ::X509_get_subject_name(certificate);
  const int at = ::X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0 || ::X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) {
    return std::nullopt;
  }
  return text_of(::X509_NAME_ENTRY_get_data(::X509_NAME_get_entry(subject, at)));
}

// The only member among the alternative names; two would leave open which is meant.
std::optional<Member> named_member(const X509* certificate) {
  const GeneralNamesPtr names(static_cast<GENERAL_NAMES*>(
      ::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::optional<Member> found;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) {
      continue;
    }
    auto member = find_member(text_of(name->d.uniformResourceIdentifier));
    if (!member || found) {
      return std::nullopt;
    }
    found = std::move(member);
  }
  return found;
}

[[noreturn]] void throw_not_valid(const Certificate& certificate, WallTime now, int error) {
  const Validity validity = certificate.validity();
  if (now > validity.until) {
    throw_invalid("[trust] expected a certificate that is still valid, got one that expired on ",
                  to_text(validity.until), "; enrol again.");
  }
  if (now < validity.from) {
    throw_invalid("[trust] expected a certificate that is valid already, got one from ",
                  to_text(validity.from), "; is the clock of this machine right?");
  }
  throw_invalid("[trust] expected a certificate of our authority, got one of another (",
                ::X509_verify_cert_error_string(error), ").");
}

}  // namespace

std::string to_text(WallTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[64];
  const std::size_t size = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &parts);
  return {text, size};
}

Validity valid_for(std::chrono::days days, WallTime now) {
  return {.from = now - std::chrono::days(1), .until = now + days};
}

Certificate Certificate::parse(std::string_view pem) {
  const ErrorScope errors;
  const auto der = read_one_pem(pem, kCertificateLabel, kMaxCertificatePem, "a certificate");
  auto certificate = read_der<CertificatePtr>(&::d2i_X509, der);
  if (!certificate) {
    throw std::invalid_argument("[trust] expected a certificate, got bytes that are none.");
  }
  return Certificate(std::move(certificate));
}

Certificate::Certificate(std::shared_ptr<x509_st> certificate)
    : certificate_(std::move(certificate)) {
  const auto* from = ::X509_get0_notBefore(certificate_.get());
  const auto* until = ::X509_get0_notAfter(certificate_.get());
  if (!time_of(from) || !time_of(until)) {
    throw std::invalid_argument("[trust] expected a certificate with dates, got broken ones.");
  }
}

std::string Certificate::to_pem() const {
  return encode_pem(
      {.label = kCertificateLabel, .der = write_der(&::i2d_X509, certificate_.get())});
}

Digest Certificate::fingerprint() const {
  return sha256(write_der(&::i2d_X509, certificate_.get()));
}

Validity Certificate::validity() const {
  return {.from = time_of(::X509_get0_notBefore(certificate_.get())).value(),
          .until = time_of(::X509_get0_notAfter(certificate_.get())).value()};
}

bool Certificate::is_authority() const {
  const ErrorScope errors;
  return ::X509_check_ca(certificate_.get()) == 1;
}

bool Certificate::has_key(const PrivateKey& key) const {
  const ErrorScope errors;
  const EVP_PKEY* own = ::X509_get0_pubkey(certificate_.get());
  return own != nullptr && ::EVP_PKEY_eq(own, key.get()) == 1;
}

Member Certificate::member() const {
  const ErrorScope errors;
  auto member = named_member(certificate_.get());
  const auto name = common_name(certificate_.get());
  if (!member || !name || *name != member->id || is_authority()) {
    throw std::invalid_argument("[trust] expected a member's certificate, got another.");
  }
  return std::move(*member);
}

void check_issued(const Certificate& certificate, const Certificate& authority, WallTime now) {
  const ErrorScope errors;
  const StorePtr store(::X509_STORE_new());
  const StoreContextPtr context(::X509_STORE_CTX_new());
  RAVNEST_CHECK(store != nullptr && context != nullptr);
  RAVNEST_CHECK(::X509_STORE_add_cert(store.get(), authority.get()) == 1);
  RAVNEST_CHECK(::X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr) == 1);
  // Of the root's own signature too: damage is found by it.
  ::X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_CHECK_SS_SIGNATURE);
  ::X509_STORE_CTX_set_time(context.get(), 0, std::chrono::system_clock::to_time_t(now));
  if (::X509_verify_cert(context.get()) != 1) {
    throw_not_valid(certificate, now, ::X509_STORE_CTX_get_error(context.get()));
  }
}

}  // namespace ravnest::trust
