#pragma once

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

namespace ravnest::provider {

// Somebody ended the run: another provider, the requester, or a signal.
class StoppedRun : public std::runtime_error {
 public:
  StoppedRun(int exit_code, const std::string& reason)
      : std::runtime_error(reason), exit_code_(exit_code) {}

  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

// Bad input that is no fault of the model, but of a neighbour or of this machine's own files:
// others may fare better.
class LocalFault : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// That of a StoppedRun, else nothing.
std::optional<int> exit_code_of(const std::exception_ptr& error);

// What an exception says, in one line.
std::string text_of(const std::exception_ptr& error);

}  // namespace ravnest::provider
