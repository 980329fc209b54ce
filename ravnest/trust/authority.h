#pragma once

#include <chrono>
#include <filesystem>

#include "ravnest/trust/certificate.h"
#include "ravnest/trust/identity.h"
#include "ravnest/trust/request.h"

namespace ravnest::trust {

// How long a member's certificate is good for.
inline constexpr std::chrono::days kMemberDays{365};

// A server's own small certificate authority: says who is a member of its pool, in certificates. It
// can issue for members alone, not further authorities. Copies share the key. Any thread may call.
class Authority {
 public:
  // In memory alone.
  static Authority make(WallTime now);
  // The one in this folder (ca.key, ca.crt). It is made there the first time; a key whose
  // certificate is missing, as after a crash, gets another (and tokens another fingerprint). Throws
  // std::invalid_argument where the files do not belong together, are not the owner's alone or have
  // expired; Error(kIo) where they cannot be read or written.
  static Authority open(const std::filesystem::path& folder, WallTime now);

  const Certificate& certificate() const { return certificate_; }

  // A certificate for the key of a request, with the member's id and role, for serving and calling
  // alike: members connect to each other both ways.
  Certificate issue(const Request& request, const Member& member, const Validity& validity) const;
  // Key and certificate made here: the server's own.
  Identity make_identity(const Member& member, const Validity& validity) const;

 private:
  Authority(PrivateKey key, Certificate certificate)
      : key_(std::move(key)), certificate_(std::move(certificate)) {}

  PrivateKey key_;
  Certificate certificate_;
};

}  // namespace ravnest::trust
