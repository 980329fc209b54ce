#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ravnest::agent {

// How a child process ended.
struct ChildEnd {
  int exit_code = 0;  // -1: by a signal
  int signal = 0;

  bool is_well() const { return exit_code == 0; }
  std::string describe() const;  // "was ended by signal 9 (Killed)"
};

// A process of ours: words to its standard input, lines from its output. What it writes to standard
// error goes where ours does. It has our environment without a token: what it runs is a stranger's.
class Child {
 public:
  struct Events {
    std::function<void(std::string line)> on_line;
    std::function<void(ChildEnd)> on_end;  // last; both on a thread of the child's
    // So many until the next let_speak(): a child that says more waits at its pipe. 0: no limit.
    std::int64_t lines_at_once = 0;
  };

  // Throws Error(kIo) where the program cannot be started.
  Child(const std::vector<std::string>& command, Events events);
  // Kills it.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Passed over where it has ended.
  void say(const std::string& word);
  void let_speak();
  void kill();
  // False where it still runs at the deadline.
  bool wait(std::chrono::milliseconds timeout);
  pid_t id() const { return id_; }

 private:
  void listen();
  bool take(std::string& rest);
  void tell(std::string line);

  Events events_;
  pid_t id_ = -1;
  int process_ = -1;  // descriptor of the process: ids are used again, this is not
  int input_ = -1;
  int output_ = -1;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::int64_t lines_said_ = 0;  // since it was let speak
  bool is_over_ = false;

  std::thread thread_;
};

// Runs a program to its end, and gives what it printed. Throws Error(kIo) where it fails.
std::string run_program(const std::vector<std::string>& command, std::chrono::milliseconds timeout);

}  // namespace ravnest::agent
