#include "ravnest/agent/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "ravnest/base/error.h"

extern char** environ;

namespace ravnest::agent {

namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 18;
constexpr std::size_t kPipeReads = 16;  // until a pipe is empty

// Both ends, closed in programs that are started.
std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kIo, concat("[agent] no pipe could be made: ", std::strerror(errno)));
  }
  return ends;
}

std::vector<char*> environment_without_token() {
  std::vector<char*> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string_view(*each).starts_with("RAVNEST_TOKEN=")) {
      variables.push_back(*each);
    }
  }
  variables.push_back(nullptr);
  return variables;
}

pid_t start(const std::vector<std::string>& command, int input, int output) {
  std::vector<char*> arguments;
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Ctrl-C in the terminal is for us: the child hears of it by our word.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t id = -1;
  const int error = ::posix_spawnp(&id, arguments[0], &actions, &attributes, arguments.data(),
                                   environment_without_token().data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    throw Error(ErrorKind::kIo,
                concat("[agent] '", command[0], "' could not be started: ", std::strerror(error)));
  }
  return id;
}

}  // namespace

std::string ChildEnd::describe() const {
  return signal != 0 ? concat("was ended by signal ", signal, " (", ::strsignal(signal), ")")
                     : concat("ended with exit code ", exit_code);
}

Child::Child(const std::vector<std::string>& command, Events events) : events_(std::move(events)) {
  const auto in = make_pipe();
  const auto out = make_pipe();
  try {
    id_ = start(command, in[0], out[1]);
  } catch (...) {
    for (const int end : {in[0], in[1], out[0], out[1]}) {
      ::close(end);
    }
    throw;
  }
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  output_ = out[0];
  process_ = static_cast<int>(::syscall(SYS_pidfd_open, id_, 0));
  thread_ = std::thread([this] { listen(); });
}

Child::~Child() {
  kill();
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  ::close(input_);
  thread_.join();
  ::close(output_);
  ::close(process_);
}

void Child::say(const std::string& word) {
  const std::string line = word + "\n";
  // A pipe takes a short line whole, or the child is gone (SIGPIPE is ignored by whoever owns us).
  [[maybe_unused]] const ssize_t count = ::write(input_, line.data(), line.size());
}

void Child::let_speak() {
  const std::lock_guard lock(mutex_);
  lines_said_ = 0;
  changed_.notify_all();
}

void Child::kill() { ::syscall(SYS_pidfd_send_signal, process_, SIGKILL, nullptr, 0); }

bool Child::wait(std::chrono::milliseconds timeout) {
  pollfd wanted{.fd = process_, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, static_cast<int>(timeout.count())) > 0;
}

void Child::tell(std::string line) {
  if (events_.lines_at_once > 0) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return lines_said_ < events_.lines_at_once || is_over_; });
    ++lines_said_;
  }
  events_.on_line(std::move(line));
}

// Lines from what it has written; what is not a whole line yet is the rest. False: that was all.
bool Child::take(std::string& rest) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(output_, buffer.data(), buffer.size());
  if (count <= 0) {
    return count < 0 && errno == EINTR;
  }
  rest.append(buffer.data(), static_cast<std::size_t>(count));
  std::size_t end = 0;
  while ((end = rest.find('\n')) != std::string::npos) {
    tell(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  if (rest.size() > kLongestLine) {
    kill();  // it runs a stranger's model; what it says is not trusted either
    rest.clear();
  }
  return true;
}

void Child::listen() {
  std::string rest;
  std::array<pollfd, 2> wanted{{{.fd = output_, .events = POLLIN, .revents = 0},
                                {.fd = process_, .events = POLLIN, .revents = 0}}};
  bool is_open = true;
  bool has_ended = false;
  while (is_open && !has_ended) {
    ::poll(wanted.data(), wanted.size(), -1);
    has_ended = wanted[1].revents != 0;
    is_open = wanted[0].revents == 0 || take(rest);
  }
  // What the pipe still holds, and no more: somebody that it left behind may have it open.
  for (std::size_t i = 0; is_open && i < kPipeReads && ::poll(wanted.data(), 1, 0) > 0; ++i) {
    is_open = take(rest);
  }
  if (!rest.empty()) {
    tell(std::move(rest));
  }
  int status = 0;
  while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  ChildEnd end;
  if (WIFSIGNALED(status)) {
    end = {.exit_code = -1, .signal = WTERMSIG(status)};
  } else {
    end.exit_code = WEXITSTATUS(status);
  }
  events_.on_end(end);
}

std::string run_program(const std::vector<std::string>& command,
                        std::chrono::milliseconds timeout) {
  std::string said;
  ChildEnd end;
  {
    Child child(command, {.on_line = [&](const std::string& line) { said += line + "\n"; },
                          .on_end = [&](ChildEnd given) { end = given; }});
    if (!child.wait(timeout)) {
      child.kill();
    }
  }
  if (!end.is_well()) {
    throw Error(ErrorKind::kIo, concat("[agent] '", command[0], "' ", end.describe(), "."));
  }
  return said;
}

}  // namespace ravnest::agent
