// Reads the input as a token: what is accepted prints and reads again the same. With an odd first
// byte the rest becomes a token with the right checksum, which must come back.

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ravnest/trust/token.h"
#include "tests/fuzz/finding.h"

namespace {

using namespace ravnest::trust;
using ravnest::require;

void require_round_trip(const Token& token) {
  const std::string text = to_text(token);
  const Token again = parse_token(text);
  require(to_text(again) == text && again.role == token.role &&
          again.fingerprint == token.fingerprint && again.secret.hash() == token.secret.hash());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1 && rest.size() >= kSecretBytes) {
    const auto role = find_role(1U + data[0] / 2U % 3U);
    require_round_trip({.role = *role,
                        .secret = Secret(std::as_bytes(std::span(rest)).first(kSecretBytes)),
                        .fingerprint = sha256(rest.substr(kSecretBytes))});
    return 0;
  }
  try {
    require_round_trip(parse_token(rest));
  } catch (const std::invalid_argument& error) {
    // What is said does not depend on the input but for which of six sentences it is.
    static std::set<std::string> said;
    said.insert(error.what());
    require(said.size() <= 6);
  }
  return 0;
}
