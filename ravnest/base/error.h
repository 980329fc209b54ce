#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace ravnest {

// What went wrong in the world outside the program. Bad input is
// std::invalid_argument instead, and our own mistakes are failed checks.
enum class ErrorKind { kIo, kTimeout, kPeerLost };

// A failure of the world: a peer, a disk, a deadline. Whoever waits for the
// result gets it; `kind` decides whether trying again makes sense.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}

  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Joins its arguments with operator<<; used to build sentences for errors.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

// Throws std::invalid_argument with the parts joined into one sentence.
template <typename... Parts>
[[noreturn]] void throw_invalid(const Parts&... parts) {
  throw std::invalid_argument(concat(parts...));
}

// Throws Error(kIo): cannot `verb` the file, for the reason that errno holds.
[[noreturn]] void throw_io(const std::string& path, const char* verb);

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace ravnest

// A condition that only a bug of ours can break; it holds in release builds too.
#define RAVNEST_CHECK(condition)                               \
  do {                                                         \
    if (!(condition)) {                                        \
      ::ravnest::check_failed(#condition, __FILE__, __LINE__); \
    }                                                          \
  } while (false)
