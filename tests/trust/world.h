#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "ravnest/trust/authority.h"
#include "tests/base/has.h"
#include "tests/base/temporary_folder.h"

namespace ravnest::trust {

inline const WallTime kNow =
    std::chrono::sys_days(std::chrono::year(2026) / 11 / 16) + std::chrono::hours(12);

// What a call says when it refuses its input; empty where it does not.
inline std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

inline Identity identity_of(const Authority& authority, const Member& member) {
  return authority.make_identity(member, valid_for(kMemberDays, kNow));
}

}  // namespace ravnest::trust
