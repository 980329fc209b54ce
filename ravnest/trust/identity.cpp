#include "ravnest/trust/identity.h"

#include "ravnest/base/error.h"
#include "ravnest/trust/encoding.h"
#include "ravnest/trust/private_file.h"

namespace ravnest::trust {

namespace {

constexpr std::size_t kMaxIdentityBytes = std::size_t{32} << 10;

}  // namespace

std::string to_text(const Identity& identity) {
  return identity.key.to_pem() + identity.certificate.to_pem() + identity.authority.to_pem();
}

Identity parse_identity(std::string_view text) {
  if (text.size() > kMaxIdentityBytes) {
    throw_invalid("[trust] expected an identity of at most ", kMaxIdentityBytes, " bytes, got ",
                  text.size(), ".");
  }
  const auto blocks = decode_pem(text);
  if (!blocks || blocks->size() != 3) {
    throw_invalid("[trust] expected an identity of three PEM blocks (key, certificate, authority),",
                  " got another text.");
  }
  return {.key = PrivateKey::parse(encode_pem((*blocks)[0])),
          .certificate = Certificate::parse(encode_pem((*blocks)[1])),
          .authority = Certificate::parse(encode_pem((*blocks)[2]))};
}

void check_identity(const Identity& identity, WallTime now) {
  if (!identity.certificate.has_key(identity.key)) {
    throw_invalid("[trust] expected a certificate of the private key beside it, got another's.");
  }
  if (!identity.authority.is_authority()) {
    throw_invalid("[trust] expected the certificate of an authority, got another.");
  }
  static_cast<void>(identity.certificate.member());
  check_issued(identity.certificate, identity.authority, now);
}

Identity read_identity(const std::filesystem::path& file, WallTime now) {
  try {
    Identity identity = parse_identity(read_private_file(file, kMaxIdentityBytes));
    check_identity(identity, now);
    return identity;
  } catch (const std::invalid_argument& error) {
    throw_invalid(error.what(), " It is in '", file.string(), "'.");
  }
}

void write_identity(const std::filesystem::path& file, const Identity& identity) {
  write_private_file(file, to_text(identity));
}

}  // namespace ravnest::trust
