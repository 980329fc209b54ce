// Reads the input as a certificate request, or, after an odd first byte, as the inside of one: what
// is accepted prints and reads again the same, and a certificate can be issued for it.

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ravnest/trust/authority.h"
#include "ravnest/trust/encoding.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest::trust;
  if (size == 0) {
    return 0;
  }
  static const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 11 / 16);
  static const Authority kAuthority = Authority::make(kNow);
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) {
    const auto der = std::as_bytes(std::span(text));
    text = encode_pem({.label = "CERTIFICATE REQUEST", .der = {der.begin(), der.end()}});
  }
  try {
    const Request request = Request::parse(text);
    if (Request::parse(request.to_pem()).to_pem() != request.to_pem()) {
      std::abort();
    }
    const Certificate certificate =
        kAuthority.issue(request, {.id = "fuzz"}, valid_for(std::chrono::days(1), kNow));
    check_issued(certificate, kAuthority.certificate(), kNow);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
