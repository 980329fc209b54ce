// Reads the input as an identity, or, after a first byte that says so, as the inside of a
// certificate or a key: what is accepted prints and reads again the same, and everything that is
// asked of it is answered or refused.

#include <string>
#include <string_view>

#include "ravnest/trust/authority.h"
#include "ravnest/trust/encoding.h"
#include "ravnest/trust/identity.h"
#include "tests/fuzz/finding.h"

namespace {

using namespace ravnest::trust;
using ravnest::accepted;
using ravnest::require;

const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 11 / 16);

void ask(const Certificate& certificate) {
  static const Authority kAuthority = Authority::make(kNow);
  require(Certificate::parse(certificate.to_pem()).fingerprint() == certificate.fingerprint());
  static_cast<void>(to_text(certificate.validity().until));
  accepted([&] { static_cast<void>(certificate.member()); });
  // Nobody's signature is ours.
  require(!accepted([&] { check_issued(certificate, kAuthority.certificate(), kNow); }));
  accepted([&] { check_issued(certificate, certificate, kNow); });
}

void read_certificate(std::span<const std::byte> der) {
  const PemBlock block{.label = "CERTIFICATE", .der = {der.begin(), der.end()}};
  accepted([&] { ask(Certificate::parse(encode_pem(block))); });
}

void read_key(std::span<const std::byte> der) {
  const PemBlock block{.label = "PRIVATE KEY", .der = {der.begin(), der.end()}};
  accepted([&] {
    const PrivateKey key = PrivateKey::parse(encode_pem(block));
    require(PrivateKey::parse(key.to_pem()).to_pem() == key.to_pem());
  });
}

void read_identity_text(std::string_view text) {
  accepted([&] {
    const Identity identity = parse_identity(text);
    const std::string printed = to_text(identity);
    require(to_text(parse_identity(printed)) == printed);
    ask(identity.certificate);
    ask(identity.authority);
    check_identity(identity, kNow);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      read_identity_text(rest);
      break;
    case 1:
      read_certificate(std::as_bytes(std::span(rest)));
      break;
    default:
      read_key(std::as_bytes(std::span(rest)));
      break;
  }
  return 0;
}
