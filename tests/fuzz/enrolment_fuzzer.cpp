// Reads the input as an EnrolRequest and hands it in: nobody becomes a member without the secret,
// nor under a name that is none.

#include <enrol.pb.h>

#include <cstdint>

#include "ravnest/trust/enrolment.h"
#include "ravnest/trust/member.h"
#include "tests/fuzz/finding.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest;
  using namespace ravnest::trust;
  static const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 11 / 16);
  static const std::string kSecret(32, 's');
  static EnrolmentDesk desk(Authority::make(kNow),
                            [](const Digest& hash, const std::string& name) -> Admission {
                              require(accepted([&] { check_machine_name(name); }));
                              if (hash != sha256(kSecret)) {
                                return {.member = {}, .reason = "This token is not known."};
                              }
                              return {.member = Member{.id = "fuzz", .role = Role::kProvider},
                                      .reason = ""};
                            },
                            {.limits = {.burst = 1'000'000'000}, .now = [] { return kNow; }});
  enrol::EnrolRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) {
    return 0;
  }
  const EnrolmentAnswer answer = desk.enrol({.secret = request.secret(),
                                             .name = request.name(),
                                             .request = request.certificate_request(),
                                             .host = "192.0.2.1"});
  const bool is_admitted = answer.outcome == EnrolmentOutcome::kAdmitted;
  require(is_admitted == answer.certificate.has_value());
  require(!is_admitted || request.secret() == kSecret);
  return 0;
}
