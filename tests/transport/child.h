#pragma once

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/transport/world.h"

namespace ravnest::transport {

// A transport_peer, and what it says. Killed at the latest with this.
class Child {
 public:
  explicit Child(std::vector<std::string> words) {
    words.insert(words.begin(), RAVNEST_TRANSPORT_PEER);
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    output_ = ends[0];
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int result =
        ::posix_spawn(&pid_, RAVNEST_TRANSPORT_PEER, &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (result != 0) {  // no object, and so no signal to a process that is not there
      throw std::runtime_error(concat("cannot start ", RAVNEST_TRANSPORT_PEER));
    }
  }
  ~Child() {
    send_signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(output_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void send_signal(int number) const { ::kill(pid_, number); }

  // The next line; nothing at the end, or after the patience.
  std::optional<std::string> read_line() {
    const TimePoint deadline = deadline_in(kPatience);
    while (true) {
      if (const auto end = text_.find('\n'); end != std::string::npos) {
        std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return line;
      }
      const auto left =
          std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd wanted{.fd = output_, .events = POLLIN};
      char part[4096];
      if (left.count() <= 0 || ::poll(&wanted, 1, static_cast<int>(left.count())) <= 0) {
        return std::nullopt;
      }
      const ssize_t size = ::read(output_, part, sizeof(part));
      if (size <= 0) {
        return std::nullopt;
      }
      text_.append(part, static_cast<std::size_t>(size));
    }
  }

  // Reads on until this line; false where it never comes.
  bool wait_for(const std::string& wanted) {
    while (const auto line = read_line()) {
      if (*line == wanted) {
        return true;
      }
    }
    return false;
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string text_;
};

}  // namespace ravnest::transport
