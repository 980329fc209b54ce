#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "ravnest/trust/attempt_limit.h"
#include "ravnest/trust/authority.h"
#include "ravnest/trust/secret.h"

namespace ravnest::trust {

// How a machine becomes a member: it shows a token's secret and a certificate request, and gets a
// certificate. What carries the words is not known here (transport/grpc does).

// What came, as it came.
struct EnrolmentForm {
  std::string secret;   // 32 bytes
  std::string name;     // what people call the machine
  std::string request;  // PEM
  std::string host;     // where it came from, for counting attempts
};

enum class EnrolmentOutcome : std::uint8_t {
  kAdmitted,
  kMalformed,  // the form is not one of ours; the token was not looked at
  kRefused,    // the token does not open the door
  kTooMany,    // that host has to wait
};

struct EnrolmentAnswer {
  EnrolmentOutcome outcome = EnrolmentOutcome::kRefused;
  std::string text;  // where not admitted: a sentence, without any of the form
  std::optional<Certificate> certificate;  // where admitted
};

// Whether a secret opens the door, and as whom. Asked only when everything else is in order, so
// that a use of a token is not lost; counts the use. No member: `reason` says why, in a sentence.
struct Admission {
  std::optional<Member> member;
  std::string reason;
};
using Admit = std::function<Admission(const Digest& secret_hash, const std::string& name)>;

struct EnrolmentOptions {
  AttemptLimits limits;
  std::chrono::days days = kMemberDays;  // of the certificates
  std::function<WallTime()> now = [] { return std::chrono::system_clock::now(); };
  std::function<AttemptLimit::TimePoint()> steady_now = [] {
    return std::chrono::steady_clock::now();
  };
};

// The server's side. Any thread may call; `admit` is called by one at a time.
class EnrolmentDesk {
 public:
  EnrolmentDesk(Authority authority, Admit admit, EnrolmentOptions options = {});

  EnrolmentAnswer enrol(const EnrolmentForm& form);
  const Authority& authority() const { return authority_; }

 private:
  EnrolmentAnswer decide(const EnrolmentForm& form);

  const Authority authority_;
  const Admit admit_;
  const EnrolmentOptions options_;

  std::mutex mutex_;  // guards what follows
  AttemptLimit limit_;
};

}  // namespace ravnest::trust
