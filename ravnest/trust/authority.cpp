#include "ravnest/trust/authority.h"

#include <array>

#include "ravnest/trust/openssl.h"
#include "ravnest/trust/private_file.h"
#include "ravnest/trust/random.h"

namespace ravnest::trust {

namespace {

constexpr std::chrono::days kAuthorityDays{365 * 20};
constexpr std::size_t kSerialBytes = 16;
constexpr std::size_t kMaxFileBytes = std::size_t{16} << 10;

void set_random_serial(X509* certificate) {
  std::array<std::byte, kSerialBytes> bytes{};
  fill_random(bytes);
  bytes[0] = (bytes[0] & std::byte{0x7f}) | std::byte{0x40};  // positive, and of one length
  const BignumPtr number(
      ::BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()), kSerialBytes, nullptr));
  const IntegerPtr serial(::BN_to_ASN1_INTEGER(number.get(), nullptr));
  RAVNEST_CHECK(::X509_set_serialNumber(certificate, serial.get()) == 1);
}

void set_validity(X509* certificate, const Validity& validity) {
  using std::chrono::system_clock;
  RAVNEST_CHECK(::ASN1_TIME_set(::X509_getm_notBefore(certificate),
                                system_clock::to_time_t(validity.from)) != nullptr);
  RAVNEST_CHECK(::ASN1_TIME_set(::X509_getm_notAfter(certificate),
                                system_clock::to_time_t(validity.until)) != nullptr);
}

void set_subject(X509* certificate, const std::string& common_name) {
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.c_str());
  RAVNEST_CHECK(::X509_NAME_add_entry_by_NID(::X509_get_subject_name(certificate), NID_commonName,
                                             MBSTRING_ASC, text, -1, -1, 0) == 1);
}

// An extension in OpenSSL's own short notation.
void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  ::X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(::X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  RAVNEST_CHECK(extension != nullptr);
  RAVNEST_CHECK(::X509_add_ext(certificate, extension.get(), -1) == 1);
}

CertificatePtr start(EVP_PKEY* key, const std::string& common_name, const Validity& validity) {
  CertificatePtr certificate(::X509_new());
  RAVNEST_CHECK(certificate != nullptr);
  RAVNEST_CHECK(::X509_set_version(certificate.get(), X509_VERSION_3) == 1);
  set_random_serial(certificate.get());
  set_validity(certificate.get(), validity);
  set_subject(certificate.get(), common_name);
  RAVNEST_CHECK(::X509_set_pubkey(certificate.get(), key) == 1);
  add_extension(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash");
  return certificate;
}

Certificate sign(CertificatePtr certificate, X509* issuer, const PrivateKey& key) {
  RAVNEST_CHECK(::X509_set_issuer_name(certificate.get(), ::X509_get_subject_name(issuer)) == 1);
  add_extension(certificate.get(), issuer, NID_authority_key_identifier, "keyid:always");
  RAVNEST_CHECK(::X509_sign(certificate.get(), key.get(), ::EVP_sha256()) > 0);
  return Certificate(std::move(certificate));
}

// One for each key: nobody takes one authority for another, and one whose certificate was lost and
// made anew is still who issued the members' certificates.
std::string authority_name(const PrivateKey& key) {
  return "ravnest authority " + to_hex(sha256(write_der(&::i2d_PUBKEY, key.get()))).substr(0, 16);
}

Certificate make_authority_certificate(const PrivateKey& key, WallTime now) {
  auto certificate = start(key.get(), authority_name(key), valid_for(kAuthorityDays, now));
  X509* self = certificate.get();
  add_extension(self, self, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(self, self, NID_key_usage, "critical,keyCertSign");
  return sign(std::move(certificate), self, key);
}

void check_authority(const PrivateKey& key, const Certificate& certificate, WallTime now) {
  if (!certificate.is_authority() || !certificate.has_key(key)) {
    throw_invalid("[trust] expected the certificate of the key in ca.key, got another's.");
  }
  check_issued(certificate, certificate, now);
}

}  // namespace

Authority Authority::make(WallTime now) {
  PrivateKey key = PrivateKey::make();
  Certificate certificate = make_authority_certificate(key, now);
  return {std::move(key), std::move(certificate)};
}

Authority Authority::open(const std::filesystem::path& folder, WallTime now) {
  const auto key_file = folder / "ca.key";
  const auto certificate_file = folder / "ca.crt";
  try {
    const bool is_new = !std::filesystem::exists(certificate_file);
    if (is_new && !std::filesystem::exists(key_file)) {
      write_private_file(key_file, PrivateKey::make().to_pem());
    }
    PrivateKey key = PrivateKey::parse(read_private_file(key_file, kMaxFileBytes));
    if (is_new) {
      write_public_file(certificate_file, make_authority_certificate(key, now).to_pem());
    }
    Certificate certificate = Certificate::parse(read_public_file(certificate_file, kMaxFileBytes));
    check_authority(key, certificate, now);
    return {std::move(key), std::move(certificate)};
  } catch (const std::invalid_argument& error) {
    throw_invalid(error.what(), " It is the authority in '", folder.string(), "'.");
  }
}

Certificate Authority::issue(const Request& request, const Member& member,
                             const Validity& validity) const {
  check_member_id(member.id);
  const ErrorScope errors;
  auto certificate = start(request.public_key(), member.id, validity);
  X509* made = certificate.get();
  X509* issuer = certificate_.get();
  std::string names = concat("URI:", uri_of(member), ",DNS:", tls_name_of(member.id));
  if (member.role == Role::kServer) {
    names += concat(",DNS:", kServerTlsName);
  }
  add_extension(made, issuer, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(made, issuer, NID_key_usage, "critical,digitalSignature");
  add_extension(made, issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  add_extension(made, issuer, NID_subject_alt_name, names);
  return sign(std::move(certificate), issuer, key_);
}

Identity Authority::make_identity(const Member& member, const Validity& validity) const {
  PrivateKey key = PrivateKey::make();
  Certificate certificate = issue(Request::make(key), member, validity);
  return {.key = std::move(key), .certificate = std::move(certificate), .authority = certificate_};
}

}  // namespace ravnest::trust
