#pragma once

// Sanitizers keep memory that was freed, and need descriptors and addresses of their own: tests of
// such limits are left out of their builds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RAVNEST_IS_SANITIZED 1
#elif defined(__has_feature)
#define RAVNEST_IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define RAVNEST_IS_SANITIZED 0
#endif

namespace ravnest::transport {

inline constexpr bool kIsSanitized = RAVNEST_IS_SANITIZED;

}  // namespace ravnest::transport
