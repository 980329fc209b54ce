#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "ravnest/trust/digest.h"
#include "ravnest/trust/key.h"
#include "ravnest/trust/member.h"

struct x509_st;

namespace ravnest::trust {

// The time that calendars show, in which certificates and tokens expire.
using WallTime = std::chrono::system_clock::time_point;

// "2026-11-16 14:30 UTC"
std::string to_text(WallTime time);

struct Validity {
  WallTime from;
  WallTime until;
};

// From a day ago, since the clocks of ordinary machines differ, until so many days ahead.
Validity valid_for(std::chrono::days days, WallTime now);

// An X.509 certificate, of an authority or a member. Copies share it; it does not change.
class Certificate {
 public:
  // One PEM block, of at most 16 KiB. Throws std::invalid_argument.
  static Certificate parse(std::string_view pem);
  explicit Certificate(std::shared_ptr<x509_st> certificate);

  std::string to_pem() const;
  // SHA-256 of the whole.
  Digest fingerprint() const;
  Validity validity() const;
  bool is_authority() const;
  bool has_key(const PrivateKey& key) const;
  // Whom it speaks for. Throws std::invalid_argument where it is no member's.
  Member member() const;

  x509_st* get() const { return certificate_.get(); }

 private:
  std::shared_ptr<x509_st> certificate_;
};

// That the authority issued it and that both are valid now. Throws std::invalid_argument with what
// is wrong: expired, not valid yet, of another authority.
void check_issued(const Certificate& certificate, const Certificate& authority, WallTime now);

}  // namespace ravnest::trust
