#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <functional>
#include <iostream>

#include "ravnest/sandbox/sandbox.h"

namespace ravnest::sandbox {

inline constexpr int kThrew = 250;
inline constexpr int kKilled = 251;

// What a system call answered: 0, or why not.
inline int answer(long result) { return result < 0 ? errno : 0; }

// What the attempt returns (0 to 249) in a child process of its own.
inline int in_child(const std::function<int()>& attempt) {
  const pid_t child = ::fork();
  if (child == 0) {
    int result = kThrew;
    try {
      result = attempt();
    } catch (const std::exception& error) {
      std::cerr << error.what() << '\n';
    }
    ::_exit(result);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled;
}

// The same, in a child that has closed itself in.
inline int inside(const SandboxOptions& options, const std::function<int()>& attempt) {
  return in_child([&] {
    enter(options);
    return attempt();
  });
}

// How far Landlock goes here.
inline int abi() {
  static const int kFound = in_child([] { return enter({}).landlock_abi; });
  return kFound;
}

}  // namespace ravnest::sandbox
